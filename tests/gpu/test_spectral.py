"""What only a GPU can show of SpectralPlus: bfloat16 directions, the kernel for signs, graphs and waits.

On a machine with one: `TRITON_INTERPRET=0 python -m pytest tests/gpu`.
"""

import os
from contextlib import suppress
from typing import Any

import pytest
import torch
from cases import difference, give, params, through_a_file, values
from torch import Tensor, nn

from adamplus import SpectralPlus
from adamplus.optim._orthogonal import orthogonalize

symmetric_product: Any = None
with suppress(ImportError):
    from adamplus.optim._execution.fused.symmetric import symmetric_product

ON_GPU = torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1"
pytestmark = pytest.mark.skipif(not ON_GPU, reason="needs a GPU, and TRITON_INTERPRET=0")
MATRICES = [(300, 200), (128, 512), (128, 512), (96, 8, 3, 3)]
OTHERS = [(1025,), (), (70, 30), (100_000,)]
WAYS: dict[str, dict[str, Any]] = {"two": {}, "kept": {"keep_direction": True}, "at w": {"lookahead": 0.0}}


def made(dtype: torch.dtype = torch.float32, **settings: Any) -> SpectralPlus:
    torch.manual_seed(0)
    matrices, others = (
        [nn.Parameter(torch.randn(s, device="cuda").to(dtype)) for s in shapes] for shapes in (MATRICES, OTHERS)
    )
    return SpectralPlus([{"params": matrices}, {"params": others, "geometry": "sign"}], **settings)


def gradients(seed: int) -> list[Tensor]:
    generator = torch.Generator("cuda").manual_seed(seed)
    return [torch.randn(shape, device="cuda", generator=generator) for shape in (*MATRICES, *OTHERS)]


def take(optimizer: SpectralPlus, seed: int) -> None:
    give(optimizer, gradients(seed))
    optimizer.step()


@pytest.mark.parametrize("shape", [(4, 768, 768), (2, 768, 3072), (2, 3072, 768), (3, 200, 300)])
def test_bfloat16_directions_are_orthogonal_up_to_the_documented_error(shape: tuple[int, ...]):
    x = torch.randn(shape, device="cuda", generator=torch.Generator("cuda").manual_seed(0))
    y = orthogonalize(x)
    assert y.dtype == torch.bfloat16
    u, sigma, vh = torch.linalg.svd(x.double(), full_matrices=False)
    along = torch.diagonal(u.mT @ y.double() @ vh.mT, dim1=-2, dim2=-1)
    large = sigma >= 1e-2 * torch.linalg.matrix_norm(x.double(), keepdim=True)[..., 0]
    assert large.float().mean() > 0.8
    assert (along - 1)[large].abs().max() <= 0.12


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_kernels_take_the_steps_of_foreach(dtype: torch.dtype, way: str):
    fused, foreach = made(dtype, **WAYS[way]), made(dtype, foreach=True, **WAYS[way])
    for i in range(10):
        take(fused, i)
        take(foreach, i)
    # foreach rounds a 16-bit parameter twice a step, and the kernels once
    rounding = 1e-6 if dtype == torch.float32 else 15 * torch.finfo(dtype).eps
    # bfloat16 products in batches of other sizes differ by a rounding of U Vᵀ, whose entries are at most 0.3 here
    directions = 10 * 0.02 * 3 * 0.3 * 2.0**-7 / 3
    kernels, lists = values(fused), values(foreach)
    assert difference(kernels[len(MATRICES) :], lists[len(MATRICES) :]) <= rounding
    assert difference(kernels[: len(MATRICES)], lists[: len(MATRICES)]) <= rounding + directions


def test_the_kernel_for_symmetric_products_agrees_with_cublas():
    generator = torch.Generator("cuda").manual_seed(0)
    for shape in ((3, 768, 768), (2, 768, 3072), (2, 3072, 768), (2, 300, 270), (1, 1000, 77)):
        x = torch.randn(shape, device="cuda", generator=generator).bfloat16() / shape[-1] ** 0.5
        for wide in (x, x.mT):
            outer = wide.double() @ wide.double().mT
            found = symmetric_product(wide)
            # half an ulp of the sum in float32
            assert (found - outer).abs().max() <= 2.0**-8 * outer.abs().max()
            polynomial = (
                0.5 * found.double() @ found.double() + 2 * found.double() + 3 * torch.eye(len(outer[0])).cuda()
            )
            found = symmetric_product(found, factor=0.5, diagonal=3.0, added=found, added_factor=2.0)
            assert (found - polynomial).abs().max() <= 2.0**-8 * polynomial.abs().max()


@pytest.mark.parametrize("way", WAYS)
def test_a_captured_step_has_the_bits_of_an_eager_one(way: str):
    lr = torch.tensor(0.02, device="cuda")
    replayed, eager = (made(lr=lr.clone(), capturable=True, **WAYS[way]) for _ in range(2))
    give(replayed, gradients(0))
    static = [p.grad for p in params(replayed)]
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        replayed.step()
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        replayed.step()
    take(eager, 0)
    for i in range(1, 6):
        for own, new in zip(static, gradients(i), strict=True):
            own.copy_(new)  # pyright: ignore[reportOptionalMemberAccess]
        graph.replay()
        take(eager, i)
    assert difference(values(replayed), values(eager)) == 0
    assert replayed.stats().step == eager.stats().step == 6
    replayed.eval()
    eager.eval()
    assert difference(values(replayed), values(eager)) == 0


@pytest.mark.parametrize("way", WAYS)
def test_no_step_waits_for_the_device(way: str):
    optimizer = made(**WAYS[way])
    for i in range(4):
        give(optimizer, gradients(i))
        torch.cuda.set_sync_debug_mode("error" if i > 1 else "default")
        try:
            optimizer.step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert optimizer.stats().step == 4


@pytest.mark.parametrize("way", WAYS)
def test_a_run_resumes_bit_for_bit(way: str):
    whole = made(**WAYS[way])
    for i in range(3):
        take(whole, i)
    saved = through_a_file({"params": values(whole), "optimizer": whole.state_dict()})
    resumed = made(**WAYS[way])
    resumed.load_state_dict(saved["optimizer"])
    with torch.no_grad():
        for p, value in zip(params(resumed), saved["params"], strict=True):
            p.copy_(value)
    for i in range(3, 6):
        take(whole, i)
        take(resumed, i)
    assert difference(values(resumed), values(whole)) == 0


def test_autocast_does_not_change_a_step():
    inside, outside = made(), made()
    for i in range(3):
        take(outside, i)
        with torch.autocast("cuda", torch.float16):
            take(inside, i)
    assert difference(values(inside), values(outside)) == 0


def test_a_compiled_step_is_close_to_the_eager_one():
    compiled, eager = (made(lr=torch.tensor(0.02, device="cuda")) for _ in range(2))
    step = torch.compile(compiled.step, fullgraph=True)
    for i in range(4):
        for optimizer, taken in ((compiled, step), (eager, eager.step)):
            give(optimizer, gradients(i))
            taken()
    # A compiler rounds bfloat16 products at other places: directions differ by a few per cent in a few entries.
    assert difference(values(compiled), values(eager)) <= 0.05
    assert compiled.stats().step == 4
