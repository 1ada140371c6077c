"""A whole training step of ResNet18 in a CUDA graph is the eager one: 200 steps of each, compared bit for bit.

lr and β are tensors and change every 20 steps, between replays. Deterministic cuDNN kernels, float32.
"""

import torch
from torch import nn

from adamplus import AdamPlus
from adamplus.lab.models import ResNet18

STEPS, BATCH = 200, 128


def batches(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The batch of a step, which depends only on the step's number."""
    generator = torch.Generator("cuda").manual_seed(step)
    x = torch.randn(BATCH, 3, 32, 32, device="cuda", generator=generator)
    return x, torch.randint(0, 10, (BATCH,), device="cuda", generator=generator)


def train(captured: bool) -> tuple[list[torch.Tensor], float]:
    """Everything that 200 steps leave behind, and the last loss."""
    torch.manual_seed(0)
    model = ResNet18().cuda()
    lr, beta = torch.tensor(0.1, device="cuda"), torch.tensor(0.1, device="cuda")
    optimizer = AdamPlus(model.parameters(), lr=lr, beta=beta, fused=True)
    x, y = (t.clone() for t in batches(0))
    loss = torch.zeros((), device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        value = nn.functional.cross_entropy(model(x), y)
        value.backward()
        optimizer.step()
        loss.copy_(value.detach())

    graph = torch.cuda.CUDAGraph()
    for i in range(STEPS):
        for static, new in zip((x, y), batches(i), strict=True):
            static.copy_(new)
        if i % 20 == 0:
            lr.fill_(0.1 * 0.8 ** (i // 20))
            beta.fill_(0.1 + 0.02 * (i // 20))
        if not captured or i < 3:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                step()
            torch.cuda.current_stream().wait_stream(side)
            continue
        if i == 3:
            optimizer.zero_grad()
            with torch.cuda.graph(graph):
                step()
        graph.replay()
    torch.cuda.synchronize()
    state = [t for p in model.parameters() for t in optimizer.state[p].values()]
    return [*model.state_dict().values(), *state], loss.item()


def main() -> None:
    """Print what differs."""
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    (eager, first), (graph, second) = train(False), train(True)
    differ = sum(not torch.equal(a, b) for a, b in zip(eager, graph, strict=True))
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}: {STEPS} steps, {len(eager)} tensors compared")
    print(f"loss {first:.6f} eager, {second:.6f} captured; tensors that differ in any bit: {differ}")


if __name__ == "__main__":
    main()
