"""A capturable step reads no value on the host, as far as a machine without an accelerator can show it."""

from typing import Any

import pytest
import torch
from cases import NoHostRead, small_model, train, values
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from adamplus import AdamPlus
from adamplus.optim._norm import combine

SETTINGS: list[dict[str, Any]] = [
    {},
    {"lr": torch.tensor(0.1), "beta": torch.tensor(0.1)},
    {"weight_decay": 0.05, "decoupled_weight_decay": True, "lr": torch.tensor(0.1)},
    {"norm_scope": "tensor", "maximize": True, "eps": 0.0},
    {"foreach": False},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_capturable_step_reads_no_value(settings: dict[str, Any]):
    model = small_model()
    optimizer = AdamPlus(model.parameters(), capturable=True, **settings)
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    with NoHostRead():
        for _ in range(3):
            optimizer.step()
            optimizer.eval()
            optimizer.train()
    assert optimizer.stats().step == 3


def test_the_guard_sees_a_read():
    with NoHostRead(), pytest.raises(AssertionError, match="read a value"):
        torch.ones(()).item()


@pytest.mark.parametrize("capturable", [False, True])
@pytest.mark.parametrize("settings", SETTINGS)
def test_a_step_on_another_device_reads_no_value_there(settings: dict[str, Any], capturable: bool):
    """Tensors on the meta device have no value: reading one raises, and so does mixing it with CPU tensors."""
    tensors = [name for name, value in settings.items() if isinstance(value, torch.Tensor)]
    settings = {name: float(value) if name in tensors else value for name, value in settings.items()}
    ps = [nn.Parameter(torch.empty(4, 3, device="meta")), nn.Parameter(torch.empty(5, device="meta"))]
    optimizer = AdamPlus(ps, capturable=capturable, **settings)
    for name in tensors:
        optimizer.param_groups[0][name] = torch.empty((), device="meta")
    for p in ps:
        p.grad = torch.empty_like(p)
    for _ in range(2):
        optimizer.step()
    for p in ps:
        assert optimizer.state[p]["offset"].device.type == "meta"
        assert optimizer.state[p]["step"].device.type == ("meta" if capturable else "cpu")
    assert optimizer.param_groups[0]["record"].device.type == "meta"
    with pytest.raises(RuntimeError, match="meta"):
        optimizer.stats()


def test_norms_from_several_devices_are_added_up():
    with FakeTensorMode():
        norms = [torch.ones(2, dtype=torch.float64, device=device) for device in ("cuda:0", "cpu", "cuda:1", "cpu")]
        assert combine(norms).device == torch.device("cuda:0")
    assert float(combine([])) == 0.0


def test_capturable_changes_no_bit():
    results = []
    for capturable in (False, True):
        model = small_model()
        optimizer = AdamPlus(model.parameters(), lr=torch.tensor(0.05), capturable=capturable)
        train(model, optimizer, range(10))
        results.append(values(optimizer))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_capturing_without_capturable_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    p = nn.Parameter(torch.ones(2))
    p.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="capturable=True"):
        AdamPlus([p]).step()
    AdamPlus([p], capturable=True).step()
