"""What `adamplus bench` measures, against known sizes, times and memory."""

import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from adamplus.lab import device as devices
from adamplus.lab.bench import BenchReport, InputError, ModelCosts, StepCost, compare, load, markdown, measure, save
from adamplus.lab.bench.contenders import ADAM, ADAM_PLUS, CONTENDERS, MOMENTUM, SIGN, UnavailableError, moved_bytes
from adamplus.lab.bench.measure import Times, call_time, eager, peak, state_bytes
from adamplus.lab.bench.report import check_writable
from adamplus.lab.bench.shapes import MODELS, equal_tensors, gpt_blocks, listed, parameters
from adamplus.lab.bench.table import COLUMNS, table

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("_frozen_again")


@pytest.mark.parametrize(
    ("model", "tensors", "count"),
    [
        ("resnet18", 62, 11_173_962),  # He et al.'s for CIFAR-10, as in every repository of it
        ("gpt2-124m", 148, 124_439_808),  # as published
        ("gpt-1.3b", 292, 1_315_723_264),  # 50,257 · 2048 + 2048² + 24 · (12 · 2048² + 13 · 2048) + 2 · 2048
        ("many-small", 10_000, 640_000),
    ],
)
def test_models_have_their_published_sizes(model: str, tensors: int, count: int):
    made = MODELS[model]()
    assert (len(list(made.parameters())), parameters(made)) == (tensors, count)
    assert all(p.is_meta for p in made.parameters())  # it takes no memory before it is known to fit


@pytest.mark.parametrize("count", [10**6, 3 * 10**7, 10**10])
def test_lists_of_layers_have_the_requested_number_of_parameters(count: int):
    # the layers are matrices of 12 d² and vectors of 13 d, and d is a whole number: a few per cent at 1 M
    assert parameters(gpt_blocks(count)) == pytest.approx(count, rel=0.03)
    assert parameters(equal_tensors(count, 300)) == pytest.approx(count, rel=0.001)


def test_bytes_that_a_step_must_move():
    assert [moved_bytes(moves, 1, torch.float32) for moves in (ADAM_PLUS, ADAM, MOMENTUM, SIGN)] == [28, 28, 20, 20]
    assert [moved_bytes(moves, 1, torch.bfloat16) for moves in (ADAM_PLUS, ADAM, MOMENTUM, SIGN)] == [20, 14, 10, 14]


def model_of(*shapes: tuple[int, ...], device: str = "cpu") -> nn.Module:
    """A model of zeros with gradients."""
    model = nn.ParameterList(torch.zeros(shape, device=device) for shape in shapes)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    return model


class Wasteful(torch.optim.Optimizer):
    """An optimizer with 2 buffers and 3 temporaries, 2 of which live at the same time."""

    def __init__(self, params: list[nn.Parameter]) -> None:
        super().__init__(params, {})

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for p in self.param_groups[0]["params"]:
            for name in ("a", "b"):
                if name not in self.state[p]:
                    self.state[p][name] = torch.zeros_like(p)
            first = torch.ones_like(p)
            second = torch.ones_like(p)
            del first
            third = torch.ones_like(p)
            del second, third


def test_peak_memory_counts_what_is_allocated_at_the_same_time():
    size = 4 << 16
    model = model_of(*[(1 << 16,)] * 3)
    contender = compare.BenchContender("wasteful", "wasteful", lambda model: [Wasteful(list(model.parameters()))], None)
    alone = compare.measure_alone(contender, model, rounds=3)
    assert alone.state == 2 * 3 * size
    assert alone.extra == 2 * size
    assert (alone.captured, alone.not_captured) == (None, "a CPU has no graphs to capture")


def test_peak_memory_does_not_count_released_memory():
    def one_after_another() -> None:
        for _ in range(5):
            torch.ones(1 << 16)

    assert peak(one_after_another, CPU) == 4 << 16


def test_foreach_adam_holds_temporaries_and_adam_plus_holds_none():
    model = model_of((1 << 16,), (1 << 16,))
    extra = {
        key: compare.measure_alone(CONTENDERS[key], model, 3).extra for key in ("adam-foreach", "adam-plus-foreach")
    }
    assert extra["adam-foreach"] >= 2 * (4 << 16)
    assert extra["adam-plus-foreach"] <= 4096  # norms and scalars


def test_state_counts_tensors_of_all_optimizers():
    p, q = nn.Parameter(torch.ones(10)), nn.Parameter(torch.ones(5))
    pair = [torch.optim.SGD([p], lr=0.1, momentum=0.9), torch.optim.SGD([q], lr=0.1, momentum=0.9)]
    for parameter, optimizer in zip((p, q), pair, strict=True):
        parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    assert state_bytes(pair) == 4 * 15
    assert state_bytes(pair, torch.device("cuda")) == 0


def test_eager_steps_are_timed_in_turn_on_new_gradients():
    p = nn.Parameter(torch.zeros(4))
    order: list[str] = []
    gradients: list[torch.Tensor | None] = []

    def step(name: str) -> None:
        order.append(name)
        gradients.append(p.grad)

    ticks: list[int] = []
    times = eager({"a": lambda: step("a"), "b": lambda: step("b")}, [p], 4, lambda: ticks.append(1))
    assert order == ["a", "a", "b", "b"] * (len(order) // 4)  # each once before it is timed
    assert 2 * len(ticks) == len(order) == 4 * (4 + compare.WARM_UP)
    assert len({id(g) for g in gradients}) == len(gradients)
    assert all(t.quartiles[0] <= t.median <= t.quartiles[1] for t in times.values())


def test_time_is_measured_per_call():
    assert 5 <= call_time(lambda: time.sleep(0.005), 3, CPU) < 15  # all three together would be 15


def test_a_copy_counts_bytes_read_and_written(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(measure.COPIED, "cpu", 1 << 20)
    monkeypatch.setattr(measure, "call_time", lambda *_: 1.0)  # ms
    assert measure.copy_bandwidth(CPU) == 2 * (1 << 20) * 1000


def test_cpu_0_is_the_cpu_and_unknown_devices_are_refused():
    assert devices.choose("cpu:0") == devices.choose("cpu") == CPU
    with pytest.raises(InputError, match="--device must be cpu, cuda, or cuda:1 and so on, got 'tpu'"):
        devices.choose("tpu")


def test_contenders_share_the_device_as_far_as_their_states_fit():
    alone = {
        name: compare.Alone(state, extra, None, None) for name, state, extra in [("a", 4, 1), ("b", 4, 3), ("c", 4, 0)]
    }
    assert compare.batches(alone, 100) == [["a", "b", "c"]]
    assert compare.batches(alone, 11) == [["a", "b"], ["c"]]
    assert compare.batches(alone, 1) == [["a"], ["b"], ["c"]]
    assert compare.batches({}, 1) == []


def test_muon_takes_hidden_matrices_and_leaves_the_rest_to_adamw():
    muon, adamw = CONTENDERS["muon"].build(nn.Sequential(nn.Conv2d(2, 2, 3), nn.Linear(4, 4), nn.Linear(4, 3)))
    assert [tuple(p.shape) for p in muon.param_groups[0]["params"]] == [(4, 4)]
    assert sum(len(group["params"]) for group in adamw.param_groups) == 5
    with pytest.raises(UnavailableError, match="hidden matrices of two dimensions, and there are none"):
        CONTENDERS["muon"].build(nn.Sequential(nn.Conv2d(2, 2, 3), nn.Linear(4, 3)))


def test_spectral_plus_keeps_one_buffer_and_directions_if_it_is_asked_to():
    """Bytes of state: z in float32, directions of the hidden matrix in bfloat16, and a count and an offset each."""
    state = {}
    for key in ("spectral-plus", "spectral-plus-kept", "spectral-plus-sign"):
        model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 8))
        measure.give_gradients(list(model.parameters()))
        state[key] = compare.measure_alone(CONTENDERS[key], model, 3).state
    assert state["spectral-plus"] == state["spectral-plus-sign"] == 4 * parameters(model) + 3 * 8
    assert state["spectral-plus-kept"] == state["spectral-plus"] + 2 * 64 * 64


def test_optimizers_that_are_not_installed_are_absent_and_the_others_are_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "schedulefree", None)
    monkeypatch.delattr(torch.optim, "Muon")
    chosen = [CONTENDERS[key] for key in ("adam-fused", "schedule-free-adamw", "muon")]
    ticks: list[int] = []
    conditions = compare.Conditions(CPU, torch.float32, 3, 1e9)
    measured = compare.compare("x", listed([(3, 3)]), chosen, conditions, ticks.append)
    assert [row.optimizer for row in measured.rows] == ["Adam fused"]
    assert measured.absent["schedule-free AdamW"] == "not installed (pip install schedulefree)"
    assert "2.9" in measured.absent["Muon + AdamW fused"]
    assert sum(ticks) == compare.ticks(chosen, 3)


def test_optimizers_that_run_out_of_memory_are_absent(monkeypatch: pytest.MonkeyPatch):
    def too_much(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate a lot\nand more")

    conditions = compare.Conditions(CPU, torch.float32, 3, 1e9)
    monkeypatch.setattr(compare, "side_by_side", too_much)
    assert compare.compare("x", listed([(3,)]), [CONTENDERS["adam-fused"]], conditions, lambda _: None).absent == {
        "Adam fused": "out of memory"
    }
    monkeypatch.setattr(compare, "measure_alone", too_much)
    assert compare.compare("x", listed([(3,)]), [CONTENDERS["adam-fused"]], conditions, lambda _: None).rows == []


def test_the_reason_is_the_first_error_of_a_chain():
    """A capture that fails raises another error when it ends."""

    def capture() -> None:
        try:
            raise RuntimeError("the cause\nand its trace")
        finally:
            raise RuntimeError("operation failed due to a previous error")

    with pytest.raises(RuntimeError) as caught:
        capture()
    assert compare.reason(caught.value) == "the cause"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs")
@pytest.mark.parametrize("key", CONTENDERS)
def test_on_cuda_every_step_that_can_be_captured_is_captured(key: str):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 8)).cuda()
    measure.give_gradients(list(model.parameters()))
    try:
        alone = compare.measure_alone(CONTENDERS[key], model, 3)
    except UnavailableError as error:
        pytest.skip(str(error))
    assert alone.not_captured == CONTENDERS[key].no_capture
    assert (alone.captured is None) is (alone.not_captured is not None)
    assert alone.state >= 4 * parameters(model)


def test_a_model_that_does_not_fit_is_refused_before_it_is_allocated(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compare, "room", lambda _: 2**30)
    with pytest.raises(InputError, match=r"1,315,723,264 parameters and needs about 24.5 GiB on cpu, which has 1.0"):
        compare.compare(
            "gpt-1.3b", MODELS["gpt-1.3b"](), [], compare.Conditions(CPU, torch.float32, 3, 1e9), lambda _: None
        )


def test_a_cuda_device_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert devices.choose(None) == CPU
    with pytest.raises(InputError, match="use --device cpu"):
        devices.choose("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(InputError, match="there are 1 CUDA devices"):
        devices.choose("cuda:1")


def example() -> BenchReport:
    conditions = compare.Conditions(CPU, torch.float32, 3, 1e12)
    alone = compare.Alone(4000, 3 << 20, Times(0.05, [0.04, 0.06]), None)
    rows = [
        compare.step_cost(CONTENDERS["adam-plus-fused"], 1000, alone, Times(0.14, [0.1, 0.2]), 2.8e-5, conditions),
        compare.step_cost(
            CONTENDERS["muon"],
            1000,
            alone._replace(captured=None, not_captured="why"),
            Times(12.345, [12, 13]),
            1,
            conditions,
        ),
    ]
    measured = ModelCosts("tiny", 2, 1000, 2.8e-5, rows, {"Adam fused": "a reason"})
    certificate = {"command": "adamplus bench step", "hardware": "an abacus", "date": "2026-01-02", "torch": "2.13.0"}
    return BenchReport("step", certificate, 1000.0, [measured, ModelCosts("none", 1, 5, 1.0, [], {})])


def test_a_report_is_the_same_after_saving_and_loading(tmp_path: Path):
    save(example(), tmp_path / "report.json")
    again = load(tmp_path / "report.json")
    assert again == example()
    assert markdown(again) == markdown(example())


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (80, {"× floor", "extra, MiB", "GB/s", "captured / Adam", "captured, ms", "of a copy"}),
        (100, {"× floor", "extra, MiB", "GB/s", "captured / Adam"}),
        (160, set[str]()),
    ],
)
def test_a_narrow_table_leaves_columns_out_and_cuts_none(width: int, left_out: set[str]):
    report = load(Path(__file__).parents[3] / "results" / "step" / "h200.json")
    made = table(report, width)
    assert headings(made) == [name for name in COLUMNS if name not in left_out]
    out = Console(width=width, file=StringIO())
    out.print(made)
    text = cast("StringIO", out.file).getvalue()
    assert "…" not in text
    assert all(f" {row.optimizer} " in text for measured in report.models for row in measured.rows)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data["certificate"].pop("hardware"),
        lambda data: data["models"][0]["rows"][0].update(eager_ms="fast"),
        lambda data: data["models"][0]["rows"][0].update(eager_quartiles_ms=["a", "b"]),
        lambda data: data["models"][0].update(floor_ms=None),
        lambda data: data["models"][0]["rows"][0].pop("state_bytes"),
    ],
)
def test_a_report_with_missing_or_wrong_content_is_refused_on_loading(spoil: Callable[[Any], object], tmp_path: Path):
    save(example(), tmp_path / "report.json")
    data = json.loads((tmp_path / "report.json").read_text())
    spoil(data)
    (tmp_path / "report.json").write_text(json.dumps(data))
    with pytest.raises(InputError, match=r"report\.json is no report of `adamplus bench`: (Key|Type)Error"):
        load(tmp_path / "report.json")


def test_a_table_has_no_column_of_dashes_alone():
    report = load(Path(__file__).parents[3] / "results" / "step" / "cpu.json")
    assert headings(table(report, 160)) == [name for name in COLUMNS if "captured" not in name]
    assert headings(table(dataclasses.replace(report, models=[]), 160)) == list(COLUMNS)


def headings(made: Table) -> list[str]:
    return [str(column.header).replace(",\n", ", ").replace("\n", " ") for column in made.columns]


def test_markdown_has_every_column_and_dashes_for_missing_numbers():
    lines = markdown(example()).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert {line.count("|") for line in table} == {12}
    fused, muon = ([cell.strip() for cell in line.strip("|").split("|")] for line in table[2:])
    # 28,000 bytes in 0.05 ms are 0.56 GB/s, and 0.056 % of a copy that does 1,000
    assert fused[1:] == ["Adam⁺ fused", "0.140", "0.050", "4.00", "3.0", "0.560", "0.1 %", "1,786", "–", "–"]
    assert muon[1:] == ["Muon + AdamW fused", "12.3", "–", "4.00", "3.0", "–", "–", "12.3", "–", "–"]
    assert muon[0] == "2 tensors, 1 k parameters, floor 0.000 ms"
    text = "\n".join(lines)
    assert "`adamplus bench step` on an abacus, 2026-01-02; torch 2.13.0." in text
    assert "Adam fused did not take part: a reason (tiny)." in text
    assert "Not captured: why (Muon + AdamW fused)." in text
    assert "Noisy: the quartiles of 1 of 2 eager times" in text  # 0.1 to 0.2 around 0.14, and 12 to 13 around 12.3


def test_the_share_of_a_copy_is_bandwidth_over_bandwidth():
    alone = compare.Alone(0, 0, None, "why")
    conditions = compare.Conditions(CPU, torch.float32, 3, 100e9)
    row: StepCost = compare.step_cost(
        CONTENDERS["msgd-fused"], 10**9, alone, Times(400.0, [400.0, 400.0]), 280.0, conditions
    )
    assert (row.moved_bytes, row.gb_per_s, row.copy_share) == (20 * 10**9, 50.0, 0.5)
    assert row.over_floor == pytest.approx(400 / 280)


def test_files_that_cannot_be_written_are_refused_before_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    check_writable(tmp_path / "new.json")
    with pytest.raises(InputError, match="cannot be written to: pass another file"):
        check_writable(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)  # root may write everywhere
    with pytest.raises(InputError, match=r"new.json cannot be written to: pass another file"):
        check_writable(tmp_path / "new.json")
