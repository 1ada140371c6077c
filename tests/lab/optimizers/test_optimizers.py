"""The registered optimizers, and how the command line names them and their settings."""

import io
import math
import re
import sys
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from adamplus.lab import optimizers
from adamplus.lab.errors import InputError
from adamplus.lab.models import GPT
from adamplus.lab.optimizers import CONTENDERS, Contender, LogUniform, UnavailableError, registry

NAMES = ["adam-plus", "nadam-plus", "nigt", "sgd", "msgd", "adagrad", "adam", "adamw", "amsgrad", "rmsprop", "radam"]
NAMES += ["lion", "muon", "spectral-plus", "scion", "schedule-free-sgd", "schedule-free-adamw"]
MUON = pytest.param("muon", marks=pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch has no Muon"))
BUILT = [MUON if name == "muon" else name for name in NAMES]


def built(name: str, model: nn.Module, fraction: float = 0.5) -> torch.optim.Optimizer:
    contender = CONTENDERS[name]
    tuned = {key: space.at(fraction) for key, space in contender.search.items()}
    return contender.make(model, **{**contender.settings, **tuned})


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def trained(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> list[float]:
    """The losses before each step of a regression."""
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(1))
    losses = []
    if switch := getattr(optimizer, "train", None):  # schedule-free optimizers step only in this mode
        switch()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().item())
    return losses


def test_the_registered_names_are_the_documented_ones():
    assert list(CONTENDERS) == NAMES
    assert all(contender.name == name for name, contender in CONTENDERS.items())


@pytest.mark.parametrize("name", BUILT)
def test_every_optimizer_reduces_a_loss_inside_of_its_search_range(name: str):
    ends = []
    for fraction in (0.3, 0.5, 0.7):
        model = small()
        losses = trained(model, built(name, model, fraction), 150)
        ends.append(losses[-1] / losses[0])
    assert min(end for end in ends if math.isfinite(end)) < 0.5  # large rates are too large for a regression


@pytest.mark.parametrize("name", BUILT)
def test_the_setting_names_of_every_optimizer_are_known(name: str):
    contender = CONTENDERS[name]
    assert {*contender.search, *contender.settings} <= set(contender.names())
    assert "lr" in contender.search
    assert {"lr", "weight_decay"} <= set(contender.names())
    assert "params" not in contender.names()
    for space in contender.search.values():
        assert 100 <= space.high / space.low <= 1000


@pytest.mark.parametrize("name", BUILT)
def test_a_run_resumed_from_state_dict_is_bit_identical_after_a_change_of_rate(name: str):
    model = small()
    optimizer = built(name, model)
    trained(model, optimizer, 5)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)

    again = small()
    resumed = built(name, again)
    again.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["optimizer"])
    for each in (optimizer, resumed):
        for group in each.param_groups:
            group["lr"] = group["lr"] * 0.5
    assert trained(model, optimizer, 5) == trained(again, resumed, 5)
    for p, q in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(p, q)


def gpt() -> GPT:
    torch.manual_seed(0)
    return GPT(11, 6, width=8, layers=2, heads=2, dropout=0.0)


HIDDEN = ("inputs.weight", "mixed.weight", "wide.weight", "narrow.weight")
"""Endings of names of a GPT's hidden matrices."""


@pytest.mark.parametrize("name", [MUON])
def test_muon_steps_hidden_matrices_and_adamw_the_rest(name: str):
    model = gpt()
    optimizer = built(name, model)
    model(torch.arange(6)[None]).logsumexp(-1).mean().backward()
    optimizer.step()
    for parameter, p in model.named_parameters():
        muon = parameter.endswith(HIDDEN)
        assert sorted(optimizer.state[p]) == (["momentum_buffer"] if muon else ["exp_avg", "exp_avg_sq", "step"])
    assert sum(parameter.endswith(HIDDEN) for parameter, _ in model.named_parameters()) == 8


@pytest.mark.parametrize("name", [MUON])
def test_the_hybrid_passes_its_settings_to_muon_and_adamw(name: str):
    given = {"lr": 0.1, "adamw_ratio": 0.2, "weight_decay": 0.3, "momentum": 0.8, "nesterov": False}
    muon, rest = CONTENDERS[name].make(gpt(), **given, betas=(0.7, 0.9)).param_groups
    assert (muon["lr"], muon["weight_decay"], muon["momentum"], muon["nesterov"]) == (0.1, 0.3, 0.8, False)
    assert muon["adjust_lr_fn"] == "match_rms_adamw"
    assert (rest["lr"], rest["weight_decay"], rest["betas"]) == (pytest.approx(0.02), 0.0, (0.7, 0.9))


@pytest.mark.parametrize("name", [MUON])
def test_convolutions_are_stepped_by_adamw_with_decay(name: str):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 8), nn.Linear(8, 1))
    groups = CONTENDERS[name].make(model, weight_decay=0.3).param_groups
    shapes = [([tuple(p.shape) for p in group["params"]], group["weight_decay"]) for group in groups]
    assert shapes == [([(8, 8)], 0.3), ([(2, 1, 3, 3)], 0.3), ([(2,), (8,), (1, 8), (1,)], 0.0)]


@pytest.mark.parametrize("name", [MUON])
def test_the_hybrid_works_without_hidden_matrices_and_calls_a_closure(name: str):
    model = nn.Sequential(nn.Linear(3, 1))
    optimizer = CONTENDERS[name].make(model)

    def closure() -> float:
        optimizer.zero_grad()
        loss = (model(torch.ones(3)) - 5).square().sum()
        loss.backward()
        return loss.detach().item()

    first = optimizer.step(closure)
    assert closure() < first


def test_spectral_plus_routes_by_module_and_scales_signs():
    model = gpt()
    given = {"lr": 0.1, "beta": 0.2, "lookahead": 0.5, "weight_decay": 0.3, "sign_scale": 0.07, "keep_direction": True}
    groups = CONTENDERS["spectral-plus"].make(model, **given).param_groups
    names = {id(p): name for name, p in model.named_parameters()}
    for group in groups:
        signs = group["geometry"] == "sign"
        assert all(names[id(p)].endswith(HIDDEN) is not signs for p in group["params"])
        assert (group["weight_decay"], group["scale"]) == ((0.0, 0.07) if signs else (0.3, None))
        assert (group["lr"], group["beta"], group["lookahead"], group["keep_direction"]) == (0.1, 0.2, 0.5, True)
    assert {group["geometry"] for group in groups} == {"spectral", "sign"}


def test_scion_is_spectral_plus_without_look_ahead():
    assert {group["lookahead"] for group in built("scion", gpt()).param_groups} == {0.0}
    ends = [trained(model := small(), built(name, model), 5) for name in ("scion", "spectral-plus")]
    assert ends[0] != ends[1]
    model = small()
    settings = {key: space.at(0.5) for key, space in CONTENDERS["spectral-plus"].search.items()}
    assert trained(model, CONTENDERS["spectral-plus"].make(model, **settings, lookahead=0.0), 5) == ends[0]


def test_a_model_whose_head_is_not_known_is_reported_with_what_to_do():
    model = nn.ModuleDict({"first": nn.Linear(2, 2), "second": nn.Linear(2, 2)})
    with pytest.raises(InputError, match=r"(?s)head.*last child and call it `head`, or define get_output_embeddings"):
        CONTENDERS["spectral-plus"].make(model)


def test_a_torch_without_muon_is_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(torch.optim, "Muon", raising=False)
    with pytest.raises(UnavailableError, match=r"has no Muon: install torch 2\.9 or later"):
        built("muon", small())


def test_a_package_that_is_not_installed_is_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "schedulefree", None)
    with pytest.raises(UnavailableError, match="pip install schedulefree"):
        built("schedule-free-sgd", small())
    with pytest.raises(InputError, match="schedule-free-sgd cannot be used: schedulefree is not installed"):
        optimizers.try_out(CONTENDERS["schedule-free-sgd"], {}, "schedule-free-sgd")


@pytest.mark.parametrize(
    ("text", "name", "settings"),
    [
        ("adam", "adam", {}),
        ("adam:", "adam", {}),
        ("adam-plus:beta=0.5", "adam-plus", {"beta": 0.5}),
        ("adam:lr=1e-3;betas=0.8,0.9", "adam", {"lr": 1e-3, "betas": (0.8, 0.9)}),
        ("sgd: lr = 1 ; nesterov=False;", "sgd", {"lr": 1, "nesterov": False}),
        ("adam-plus:norm_scope=tensor", "adam-plus", {"norm_scope": "tensor"}),
        ("adam-plus:norm_scope='group'", "adam-plus", {"norm_scope": "group"}),
        ("nigt:weight_decay=1e-4", "nigt", {"weight_decay": 1e-4}),
        ("adam:foreach=None", "adam", {"foreach": None}),
        ("adamw:lr=2e-4..6e-3", "adamw", {"lr": LogUniform(2e-4, 6e-3)}),
        ("adamw:weight_decay = 1 .. 2;lr=.1", "adamw", {"weight_decay": LogUniform(1, 2), "lr": 0.1}),
    ],
)
def test_settings_are_parsed(text: str, name: str, settings: dict[str, object]):
    assert optimizers.parse(text) == (name, settings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("adm", "unknown optimizer 'adm': did you mean adam"),
        ("zzz", "choose from adam-plus, nadam-plus"),
        ("", "unknown optimizer ''"),
        ("adam:wieght_decay=1", "adam has no setting 'wieght_decay': did you mean weight_decay"),
        ("adam:params=1", "has no setting 'params'"),
        ("adam:lr", "settings must be key=value, .* got 'lr' in 'adam:lr'"),
        ("adam:lr=fast", "lr must be a number, True, False or None, got lr=fast in 'adam:lr=fast'"),
        ("adam-plus:norm_scope=all", "norm_scope must be one of global, group, tensor, got norm_scope=all"),
        ("adam:lr=", "lr must be a number"),
        ("adam:lr='1'", "lr must be a number"),
        ("adam:lr=[1]", "lr must be a number"),
        pytest.param(f"adam:lr={'-' * 100_000}1", "lr must be a number", id="many signs"),
        pytest.param(f"adam:lr={'1+' * 100_000}1", "lr must be a number", id="many terms"),
        ("adam:lr=1;lr=2", "sets 'lr' twice"),
        ("adam:lr=1..2;lr=2", "sets 'lr' twice"),
        (
            "adam:lr=0..1",
            "a range must be two numbers, 0 < low < high, as 0.001..0.1, got lr=0..1 in 'adam:lr=0..1'",
        ),
        ("adam:lr=2..1", "a range must be two numbers"),
        ("adam:amsgrad=False..True", "a range must be two numbers"),
        ("adam:lr=(1, 2)..3", "a range must be two numbers"),
        ("adam:lr=1..2..3", "lr must be a number"),
        ("adam:lr=..3", "lr must be a number"),
        ("adam:lr=1..1e999", "must be finite, got"),
        ("adam:betas=0.5..0.9", "betas must be 2 numbers"),
        ("adam:lr=1e999", "must be finite, got"),
        ("adam:betas=(0.9,1e999)", "must be finite, got"),
        ("adam:betas=1", "betas must be 2 numbers in parentheses, got betas=1 in 'adam:betas=1'"),
        ("adam:betas=(0.9,)", "betas must be 2 numbers"),
    ],
)
def test_settings_that_cannot_be_parsed_are_reported(text: str, message: str):
    with pytest.raises(InputError, match=message):
        optimizers.parse(text)


def test_python_does_not_warn_of_a_setting_that_is_refused(recwarn: pytest.WarningsRecorder):
    warnings.simplefilter("always")
    with pytest.raises(InputError, match="lr must be a number"):
        optimizers.parse("adam:lr=1if 1else 2")
    assert [str(warning.message) for warning in recwarn] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("adam:lr=-1", "the optimizer rejects .*: Invalid learning rate: -1"),
        ("adam:betas=(0.9, 2)", "the optimizer rejects .*: Invalid beta parameter at index 1: 2"),
        ("adam-plus:beta=2", "the optimizer rejects .*beta"),
        ("adam-plus:beta=0.5..2", "the optimizer rejects .*beta"),
    ],
)
def test_settings_that_the_optimizer_rejects_are_reported_before_training(text: str, message: str):
    name, settings = optimizers.parse(text)
    with pytest.raises(InputError, match=message):
        optimizers.try_out(CONTENDERS[name], settings, text)


def test_labels_have_fixed_settings_and_no_ranges():
    assert optimizers.label_of("adamw") == "adamw"
    assert optimizers.label_of("adam:lr=1; betas=(0.5, 0.9)") == "adam:lr=1; betas=(0.5, 0.9)"
    assert optimizers.label_of("adamw:lr=1e-4..1e-2;weight_decay=0.1..1") == "adamw"
    assert optimizers.label_of("adamw:lr=1e-4..1e-2;eps=1e-6;weight_decay=0.1..1;") == "adamw:eps=1e-6"
    assert optimizers.label_of("../mine.py:rho=0.7") == "../mine.py:rho=0.7"


def test_settings_that_need_another_device_are_not_checked_here(monkeypatch: pytest.MonkeyPatch):
    def build(params: list[torch.nn.Parameter], lr: float = 0.1, fused: bool = False) -> torch.optim.SGD:
        if fused and params[0].device.type == "cpu":
            raise ValueError("fused needs CUDA")
        return torch.optim.SGD(params, lr=lr)

    contender = Contender("picky", build, {"lr": LogUniform(0.01, 3)})
    with pytest.raises(InputError, match="fused needs CUDA"):
        optimizers.try_out(contender, {"fused": True}, "picky:fused=True")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    optimizers.try_out(contender, {"fused": True}, "picky:fused=True", "cuda:0")
    with pytest.raises(InputError, match="learning rate"):
        optimizers.try_out(contender, {"fused": True, "lr": -1}, "picky:fused=True;lr=-1", "cuda:0")


def by_module(model: nn.Module, lr: float = 0.1, decay: float = 0.01) -> torch.optim.SGD:
    """SGD with decay for matrices of linear layers alone."""
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    groups = [{"params": [module.weight for module in linear]}, {"params": [module.bias for module in linear]}]
    return torch.optim.SGD([{**groups[0], "weight_decay": decay}, groups[1]], lr=lr)


def test_an_optimizer_of_a_model_gets_the_model():
    contender = Contender("by-module", by_module, {"lr": LogUniform(0.01, 3)}, of_model=True)
    assert contender.names() == ["lr", "decay"]
    groups = contender.make(small(), decay=0.5).param_groups
    assert [(group["weight_decay"], len(group["params"])) for group in groups] == [(0.5, 2), (0, 2)]
    before = torch.get_rng_state()
    optimizers.try_out(contender, {"decay": 0.5}, "by-module:decay=0.5")
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(InputError, match="the optimizer rejects 'by-module:lr=-1'"):
        optimizers.try_out(contender, {"lr": -1}, "by-module:lr=-1")


def test_a_log_uniform_range_is_even_and_its_values_have_three_digits():
    space = LogUniform(1e-4, 0.03)
    values = [space.at(i / 10) for i in range(11)]
    assert all(float(f"{value:.3g}") == value for value in values)
    factors = [larger / smaller for smaller, larger in pairwise(values)]
    assert factors == pytest.approx([300**0.1] * 10, rel=1e-2)  # three digits
    assert (values[0], values[-1]) == (space.low, space.high)
    assert str(space) == "log-uniform, 0.0001 to 0.03"


def test_string_choices_are_read_from_annotations_that_are_strings(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from __future__ import annotations\nfrom typing import Literal\nimport torch\n"
        "from adamplus.lab.optimizers import Contender, LogUniform\n"
        "def build(params, lr: float = 1.0, mode: Literal['a', 'b'] | None = None):\n"
        "    return torch.optim.SGD(params, lr)\n"
        "contender = Contender('mine', build, {'lr': LogUniform(0.01, 3)})\n"
    )
    assert optimizers.parse(f"{file}:mode=b") == (str(file), {"mode": "b"})
    with pytest.raises(InputError, match="mode must be one of a, b, got mode=c"):
        optimizers.parse(f"{file}:mode=c")


def test_an_optimizer_is_found_in_a_file(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import torch\nfrom adamplus.lab.optimizers import Contender, LogUniform\n"
        "contender = Contender('mine', torch.optim.Adadelta, {'lr': LogUniform(0.01, 3)}, {'rho': 0.8})\n"
    )
    contender, digest = optimizers.find(str(file))
    assert isinstance(contender, Contender)
    assert contender.name == "mine"
    assert optimizers.parse(f"{file}:rho=0.7") == (str(file), {"rho": 0.7})
    file.write_text(file.read_text() + "EDITED = True\n")
    assert optimizers.find(str(file))[1] != digest


@pytest.mark.parametrize("name", ["lion", "adamw", "mine.py"])
def test_a_digest_covers_the_code_that_decides_every_runs_numbers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    lines = ["from torch.optim import SGD", "from adamplus.lab.optimizers import Contender"]
    Path("mine.py").write_text("\n".join([*lines, 'contender = Contender("mine", SGD, {})']))
    before = optimizers.find(name)[1]
    assert before == optimizers.find(name)[1]
    monkeypatch.setattr(registry, "own_digest", lambda: "of edited code")
    assert optimizers.find(name)[1] != before


def test_another_registered_optimizer_leaves_the_digests_of_the_others(monkeypatch: pytest.MonkeyPatch):
    read: list[str] = []
    digest = registry.digest
    monkeypatch.setattr(registry, "digest", lambda path: read.append(path.name) or digest(path))
    files: dict[str, set[str]] = {}
    for name in optimizers.CONTENDERS:
        read.clear()
        optimizers.find(name)
        files[name] = {*read}
    shared = {"contender.py", "routing.py"}
    assert files["adamw"] == shared
    assert files["lion"] == {"lion.py", *shared}
    folder = Path(registry.__file__).parent
    covered = set.union(*files.values())
    assert covered == {path.name for path in folder.glob("*.py")} - {"__init__.py", "parsing.py", "registry.py"}
    for file in covered:  # else the digest would have to cover what they import
        imported = re.findall(r"^ *from \.(\w+) import", (folder / file).read_text(), re.MULTILINE)
        assert {f"{name}.py" for name in imported} <= shared


@pytest.mark.parametrize(
    "change", [{"captured": None}, {"build": torch.optim.SGD}, {"tensors": ()}, {"of_model": True}]
)
def test_another_way_to_build_an_optimizer_is_another_digest(change: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    before = optimizers.find("lion")[1]
    monkeypatch.setitem(optimizers.CONTENDERS, "lion", replace(optimizers.CONTENDERS["lion"], **change))
    assert optimizers.find("lion")[1] != before


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (None, "there is no such file"),
        ("contender = 3\n", "must define `contender`"),
        ("x = 1\n\nraise KeyError('oops')\n", "line 3: KeyError: 'oops'"),
    ],
)
def test_a_file_without_a_contender_is_rejected_with_the_reason(code: str | None, message: str, tmp_path: Path):
    file = tmp_path / "mine.py"
    if code is not None:
        file.write_text(code)
    with pytest.raises(InputError, match=message):
        optimizers.find(str(file))


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ('{"lr": (1e-4, 0.03)}', "must be like {'lr': LogUniform"),
        ("0.1", "must be like {'lr': LogUniform"),
        ('{"lr": LogUniform(0, 1)}', "LogUniform needs numbers 0 < low <= high"),
        ('{"lr": LogUniform("a", 1)}', "LogUniform needs numbers 0 < low <= high"),
        ('{"lr": LogUniform(0.03, 1e-4)}', "LogUniform needs numbers 0 < low <= high"),
    ],
)
def test_an_impossible_search_is_reported_with_its_line(search: str, message: str, tmp_path: Path):
    file = tmp_path / "mine.py"
    lines = ["from torch.optim import SGD", "from adamplus.lab.optimizers import Contender, LogUniform"]
    file.write_text("\n".join([*lines, f'contender = Contender("mine", SGD, {search})']))
    with pytest.raises(InputError, match=f"line 3: .*{re.escape(message)}"):
        optimizers.find(str(file))
