"""What an installed package must do with torch alone. `test_package.py` and CI run it in a clean environment."""

import importlib.metadata

import torch

import adamplus
from adamplus.optim._execution import native

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = adamplus.AdamPlus(model.parameters())
optimizer.follow(model)
x = torch.randn(64, 4)
y = x.sum(1, keepdim=True)
losses: list[float] = []
for _ in range(100):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
model.eval()
assert torch.nn.functional.mse_loss(model(x), y).item() < 0.1 * losses[0]
assert importlib.metadata.version("adamplus-optimizer") == adamplus.__version__
print(adamplus.__file__, "with the C library" if native.LIBRARY is not None else "without the C library")
