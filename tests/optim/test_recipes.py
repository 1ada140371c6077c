"""Accumulation, no_sync, clipping, GradScaler and activation checkpointing, on one process and on several."""

from pathlib import Path

import pytest
import torch
from cases import batch, difference, small_model, train, values
from ranks import Run
from torch import nn

from adamplus import AdamPlus


@pytest.mark.uncovered  # the ranks of test_distributed.py run the same lines
@pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_recipes_on_several_processes_end_where_one_process_does(run: Run, processes: int):
    run(processes, Path(__file__).parent / "workers" / "recipes.py")


def test_micro_batches_make_up_a_batch():
    model, twin = small_model(), small_model()
    optimizer, whole = AdamPlus(model.parameters()), AdamPlus(twin.parameters())
    for i in range(8):
        x, y = batch(i)
        optimizer.zero_grad()
        for part, target in zip(x.chunk(4), y.chunk(4), strict=True):
            (nn.functional.mse_loss(model(part), target) / 4).backward()
        optimizer.step()
    train(twin, whole, range(8))
    assert difference(values(optimizer), values(whole)) <= 1e-6  # four parts are added in another order


def test_clipping_bounds_z_and_shortens_the_step_by_its_root():
    """README's caveat: η grows as ‖z‖ shrinks, and the step η‖z‖ shrinks as √‖z‖."""
    steps = []
    for clip in (4.0, 1.0):
        p = nn.Parameter(torch.zeros(2))
        optimizer = AdamPlus([p], lr=0.1, beta=0.5)
        p.grad = torch.tensor([30.0, 40.0])
        nn.utils.clip_grad_norm_([p], clip)
        optimizer.step()
        assert optimizer.stats().norm == pytest.approx(clip, rel=1e-6)
        steps.append(optimizer.stats().eta * optimizer.stats().norm)
    assert steps[0] / steps[1] == pytest.approx(2.0, rel=1e-6)
