"""lr and β that change: torch's schedulers and the paper's."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from cases import difference, give, values
from torch import nn
from torch.optim import lr_scheduler as torch_schedulers

from adamplus import AdamPlus, AdamPlusReference, ReduceOnPlateau, cifar_schedule

SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "step": lambda o: torch_schedulers.StepLR(o, 3, 0.5),
    "cosine": lambda o: torch_schedulers.CosineAnnealingLR(o, 30),
    "one cycle": lambda o: torch_schedulers.OneCycleLR(o, 0.3, total_steps=60, cycle_momentum=False),
    "warmup, then decay": lambda o: torch_schedulers.SequentialLR(
        o,
        [torch_schedulers.LinearLR(o, 0.1, total_iters=5), torch_schedulers.ExponentialLR(o, 0.95)],
        milestones=[5],
    ),
    "lambda": lambda o: torch_schedulers.LambdaLR(o, lambda t: 1 / (1 + t) ** 0.5),
}


def rates_of_sgd(schedule: Callable[[Any], Any], lr: float | torch.Tensor) -> list[float]:
    """Rates that torch's own SGD takes under a schedule."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr)
    scheduler, rates = schedule(optimizer), []
    for _ in range(50):
        optimizer.step()
        scheduler.step()
        rates.append(float(optimizer.param_groups[0]["lr"]))
    return rates


def rates_differ(schedule: Callable[[Any], Any]) -> bool:
    """Whether torch's own SGD takes other rates under a schedule if lr is a tensor."""
    exact = torch.tensor(0.1, dtype=torch.float64)
    return rates_of_sgd(schedule, exact) != pytest.approx(rates_of_sgd(schedule, 0.1), rel=1e-9)


@pytest.mark.parametrize("kind", ["float", "tensor"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_run_under_any_torch_scheduler_equals_the_reference(name: str, kind: str):
    if kind == "tensor" and rates_differ(SCHEDULES[name]):
        pytest.skip(
            "SGD takes other rates, too, if lr is a tensor: SequentialLR of torch 2.6 overwrites the initial lr"
        )
    p, q = (nn.Parameter(torch.ones(4, dtype=torch.float64)) for _ in range(2))
    lr = torch.tensor(0.1, dtype=torch.float64) if kind == "tensor" else 0.1
    fast, reference = AdamPlus([p], lr=lr), AdamPlusReference([q], lr=0.1)
    schedules = [SCHEDULES[name](o) for o in (fast, reference)]
    for _ in range(50):
        g = [torch.randn(4, dtype=torch.float64)]
        for optimizer, schedule in zip((fast, reference), schedules, strict=True):
            give(optimizer, g)
            optimizer.step()
            schedule.step()
    fast.eval()
    reference.eval()
    assert difference(values(fast), values(reference)) <= 1e-12


def test_a_change_right_before_eval_does_not_move_w():
    """The offset belongs to the last step, so a scheduler between step() and eval() has no effect on w."""
    p = nn.Parameter(torch.ones(4, dtype=torch.float64))
    optimizer = AdamPlus([p])
    p.grad = torch.randn(4, dtype=torch.float64)
    optimizer.step()
    with optimizer.averaged():
        w = p.detach().clone()
    optimizer.param_groups[0].update(lr=99.0, beta=0.9)
    optimizer.eval()
    assert difference([p.detach()], [w]) <= 1e-15


def plateau(**settings: Any) -> tuple[AdamPlus, ReduceOnPlateau]:
    p = nn.Parameter(torch.ones(2))
    optimizer = AdamPlus([{"params": [p]}, {"params": [nn.Parameter(torch.ones(1))], "lr": 1.0}], lr=8.0, beta=0.8)
    return optimizer, ReduceOnPlateau(optimizer, **settings)


def test_plateau_divides_lr_and_beta_of_every_group_by_4():
    optimizer, scheduler = plateau()
    for loss, lr, beta in ((5.0, 8.0, 0.8), (4.0, 8.0, 0.8), (4.0, 2.0, 0.2), (3.9, 2.0, 0.2), (4.5, 0.5, 0.05)):
        scheduler.step(loss)
        assert [g["lr"] for g in optimizer.param_groups] == pytest.approx([lr, lr / 8])
        assert [g["beta"] for g in optimizer.param_groups] == pytest.approx([beta, beta])
        assert scheduler.get_last_lr() == [g["lr"] for g in optimizer.param_groups]


def test_plateau_is_a_subclass_of_torchs_scheduler_which_trainers_recognise():
    assert isinstance(plateau()[1], torch_schedulers.ReduceLROnPlateau)


def test_plateau_has_patience_cooldown_minimum_and_maximum():
    optimizer, scheduler = plateau(patience=1, cooldown=2, minimum={"beta": 0.5, "lr": 0.0}, mode="max")
    for metric in (1.0, 0.9):
        scheduler.step(metric)
    assert optimizer.param_groups[0]["lr"] == 8.0
    scheduler.step(0.9)
    assert (optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["beta"]) == (2.0, 0.5)
    for _ in range(3):
        scheduler.step(0.9)
    assert optimizer.param_groups[0]["lr"] == 2.0
    scheduler.step(0.9)
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_plateau_leaves_zeros_alone():
    optimizer, scheduler = plateau()
    for _ in range(3000):
        scheduler.step(1.0)
    assert 0 < optimizer.param_groups[0]["beta"] < 1e-7
    optimizer.step()


def test_plateau_changes_tensors_in_place():
    lr, beta = torch.tensor(8.0), torch.tensor(0.8)
    optimizer = AdamPlus([nn.Parameter(torch.ones(2))], lr=lr, beta=beta)
    scheduler = ReduceOnPlateau(optimizer)
    for loss in (1.0, 1.0):
        scheduler.step(loss)
    assert optimizer.param_groups[0]["lr"] is lr
    assert (float(lr), float(beta)) == pytest.approx((2.0, 0.2))


def test_plateau_reduces_a_tensor_that_groups_share_once():
    groups = [{"params": [nn.Parameter(torch.ones(2))]} for _ in range(3)]
    optimizer = AdamPlus([*groups[:2], {**groups[2], "lr": 4.0}], lr=torch.tensor(8.0), beta=torch.tensor(0.8))
    scheduler = ReduceOnPlateau(optimizer)
    for loss in (1.0, 1.0):
        scheduler.step(loss)
    found = [(float(group["lr"]), float(group["beta"])) for group in optimizer.param_groups]
    assert found == [pytest.approx((2.0, 0.2)), pytest.approx((2.0, 0.2)), pytest.approx((1.0, 0.2))]


def test_plateau_resumes_from_its_state_dict():
    optimizer, scheduler = plateau(patience=2)
    for loss in (1.0, 1.0, 1.0):
        scheduler.step(loss)
    saved = copy.deepcopy((optimizer.state_dict(), scheduler.state_dict()))
    twin, again = plateau(patience=2)
    twin.load_state_dict(saved[0])
    again.load_state_dict(saved[1])
    for s in (scheduler, again):
        s.step(1.0)
    assert twin.param_groups[0]["beta"] == optimizer.param_groups[0]["beta"] == pytest.approx(0.2)


def test_plateau_accepts_a_single_key_and_any_optimizer():
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0, momentum=0.8)
    scheduler = ReduceOnPlateau(optimizer, keys="momentum", factor=0.5)
    for loss in (1.0, 2.0):
        scheduler.step(loss)
    assert (optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]) == (1.0, 0.4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keys": ("lr", "gamma")}, "group 0 of AdamPlus has no gamma"),
        ({"factor": 1.0}, r"factor must be in \(0, 1\), got 1.0"),
        ({"minimum": {"gamma": 1.0}}, "minimum names gamma, and keys are lr, beta"),
    ],
)
def test_plateau_refuses_bad_settings(settings: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        plateau(**settings)


@pytest.mark.parametrize("epochs", [350, 70, 35, 7])
def test_the_cifar_schedule_drops_at_three_and_five_sevenths(epochs: int):
    optimizer = AdamPlus([nn.Parameter(torch.ones(1))], lr=0.1)
    scheduler = cifar_schedule(optimizer, epochs)
    lrs = []
    for _ in range(epochs):
        lrs.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    drops = [i for i in range(1, epochs) if lrs[i] != lrs[i - 1]]
    assert drops == [epochs * 3 // 7, epochs * 5 // 7]
    assert lrs[-1] == pytest.approx(0.001)


def test_the_cifar_schedule_refuses_fewer_than_7_epochs():
    with pytest.raises(ValueError, match="at least 7"):
        cifar_schedule(AdamPlus([nn.Parameter(torch.ones(1))]), 6)
