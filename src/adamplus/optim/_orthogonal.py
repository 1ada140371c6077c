"""U Vᵀ of batches of matrices U Σ Vᵀ, by polynomials of matrix products, as in Muon.

Three things differ from Muon's Newton–Schulz iteration:

- The coefficients are those of Polar Express (Amsel et al. 2025, arXiv 2505.16932), the best odd quintic for each step.
- The first Gram matrix A = X Xᵀ, which is needed anyway, gives the scale: σ_max ≤ √‖A‖_F ≤ ‖X‖_F. The middle bound is
  up to m^¼ times tighter than ‖X‖_F, which is worth about one step of polynomials.
- In float32, wide matrices iterate on A alone (Gram Newton–Schulz, Zhang, Amsel, Chen and Dao 2026).

Operations for one m × n matrix, m ≤ n, and T steps, in multiples of 2 m² n (a product of n) and 2 m³ (one of m):

| form | of n | of m | T | m = n | n = 4 m |
|---|---|---|---|---|---|
| products with X | 2 T | T | 5 (bfloat16) | 30 m³ | 90 m³ |
| products with X | 2 T | T | 7 (float32) | 42 m³ | 126 m³ |
| products with X | 2 T | T | 12 (float64) | 72 m³ | 216 m³ |
| Gram, one restart | 4 | 4 T − 6 | 7 (float32) | 52 m³ | 76 m³ |

On CUDA, a Triton kernel computes half of each symmetric product (`_execution/fused/symmetric.py`). In the first row, it
saves m² n + m³ of each step's 4 m² n + 2 m³.
"""

import math
from contextlib import nullcontext
from functools import cache
from typing import Any, TypeAlias

import torch
from torch import Tensor

Steps: TypeAlias = tuple[tuple[float, float, float], ...]

STEPS: dict[torch.dtype, Steps] = {  # a, b, c of each a σ + b σ³ + c σ⁵, printed by docs/tables/polar_express.py
    torch.bfloat16: (
        (8.11799018399158, -22.216519760243738, 15.656519056133522),
        (4.017801424336969, -2.776400106902604, 0.4940459173298412),
        (3.8433948476470294, -2.7377562130355395, 0.5021878730566424),
        (3.174690573461423, -2.2952221591984148, 0.45886472001252054),
        (2.2536238444779264, -1.6392455270004016, 0.4227165539483832),
    ),
    torch.float32: (
        (8.29267764392345, -23.564296445435744, 17.242722938137014),
        (4.124269765075924, -2.9445063956182636, 0.5413393757284375),
        (4.0262106133794076, -2.9198672640514944, 0.5452823080163303),
        (3.6220741480663254, -2.706151261561795, 0.5330781378277604),
        (2.643944595869104, -1.9597417328366615, 0.44932231940302464),
        (1.9510765560917007, -1.330834613151762, 0.38214546166351865),
        (1.8753872072736557, -1.250643323361186, 0.3752560917385576),
    ),
    torch.float64: (
        (8.321562049405383, -23.693216285007633, 17.371401585824056),
        (4.1607286539807715, -2.9616492620559955, 0.5428621156651404),
        (4.160486535290837, -2.961585974930714, 0.5428705056062556),
        (4.1594795247517435, -2.9613228182831364, 0.5429054402341503),
        (4.155296434247185, -2.9602307932685137, 0.5430512414821554),
        (4.138009934764931, -2.9557374010418407, 0.5436655863617424),
        (4.0680899068707985, -2.9378971135030842, 0.5463542186384982),
        (3.788701333270152, -2.8311600409673225, 0.5489585114748614),
        (2.911983361232639, -2.1780095526205545, 0.47502150082797356),
        (2.043864768707296, -1.427024517439137, 0.39308615186593426),
        (1.8763111894769702, -1.2514429321337954, 0.37513250085297034),
        (1.8750000636166444, -1.2500001265054335, 0.375000062888789),
    ),
}
POLAR_EXPRESS = {str(dtype).removeprefix("torch."): steps for dtype, steps in STEPS.items()}
"""The same by the names of dtypes, for `adamplus.jax`."""
RESTART = 3
"""Step before which the Gram form computes X and its Gram matrix anew, so that rounding is not amplified twice."""
AUTOCAST = frozenset(kind for kind in ("cpu", "cuda", "mps", "xpu") if torch.amp.is_autocast_available(kind))
KERNEL_FROM = 256  # rows from which on the kernel for symmetric products is faster: a tile has 128


def computed_dtype(z: Tensor) -> torch.dtype:
    """The dtype of U Vᵀ: float64 of float64, else bfloat16 on CUDA and float32 elsewhere."""
    if z.dtype == torch.float64:
        return torch.float64
    return torch.bfloat16 if z.device.type == "cuda" else torch.float32


@torch.no_grad()
def orthogonalize(x: Tensor, *, scale: float = 1.0, dtype: torch.dtype | None = None) -> Tensor:
    """`scale` · U Vᵀ of every matrix U Σ Vᵀ in x, by matrix products alone.

    Beside a float64 SVD, for every singular value σ that is large enough beside the Frobenius norm ‖x‖, with scale 1:

    | dtype | steps | σ / ‖x‖ at least | σ becomes 1 to within | UᵀY differs from Vᵀ, per row, by at most |
    |---|---|---|---|---|
    | bfloat16 | 5 | 1e-2 | 0.12, of which 0.10 are the polynomials' | 0.2 |
    | float32, n ≤ 2 m | 7 | 6e-4 | 5e-6 | 1e-4 |
    | float32, n > 2 m (Gram form) | 7 | 6e-4 | 1e-4 | 1e-3 |
    | float64 | 12 | 1.4e-6 | 1e-13 | 2e-9 |

    The last column grows as (rounding error of the dtype) · ‖x‖ / σ, so its bound is needed at the smallest σ only.
    Smaller σ become smaller values. 0 stays 0 up to rounding errors, which are amplified as small σ are: by up to 10³
    in bfloat16 and float32, and 10⁶ in float64. In bfloat16 they can reach 1, so a matrix of low rank gets noise there.

    A matrix of zeros becomes zeros. One with inf or NaN becomes NaN, and the others of the batch do not change. The
    result does not depend on the scale of x. On a CPU, a matrix of a batch and the same matrix alone have results that
    are equal up to the order of sums in a matrix product. Nothing waits for the device.

    Args:
        x: matrices, [..., m, n].
        scale: a factor of the result; it costs nothing.
        dtype: bfloat16, float32 or float64, in which everything is computed. Default: `computed_dtype(x)`.

    Returns:
        A tensor of the shape of x and of the dtype in which it was computed.
    """
    dtype = dtype or computed_dtype(x)
    if x.numel() == 0:
        return x.to(dtype, copy=True)
    # autocast would compute in its own dtype, and differently in a step inside of it than in eval() after it
    kind = x.device.type
    with torch.autocast(kind, enabled=False) if kind in AUTOCAST else nullcontext():
        return _orthogonal(x.to(dtype).reshape(-1, *x.shape[-2:]), scale).reshape(x.shape)


def _orthogonal(x: Tensor, scale: float) -> Tensor:
    """The same for a batch [b, m, n]."""
    largest = torch.linalg.vector_norm(x, math.inf, dim=(-2, -1), keepdim=True)
    x = x / largest.where(largest != 0, 1)  # so that squares neither overflow nor vanish
    short, long = sorted(x.shape[-2:])
    if short == 1:
        norm = torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True)
        return x * (scale / norm.where(norm != 0, 1))
    gram = _gram(x)
    norm = torch.linalg.matrix_norm(gram, keepdim=True).sqrt()
    norm = norm.where(norm != 0, 1)
    gram = gram / norm / norm
    if x.dtype == torch.float32 and long > 2 * short:
        return _gram_form(x, gram, norm, STEPS[x.dtype], scale)
    return _products_with_x(x, gram, norm, STEPS[x.dtype], scale)


def _products_with_x(x: Tensor, gram: Tensor, norm: Tensor, steps: Steps, scale: float) -> Tensor:
    """X ← (a + b A + c A²) X with A = X Xᵀ, for all steps. The first A, of X divided by its norm, is `gram`."""
    last = len(steps) - 1
    for step, coefficients in enumerate(steps):
        if step > 0:
            gram = _gram(x)
        factor = scale if step == last else 1.0
        polynomial = _polynomial(gram, *(factor * coefficient for coefficient in coefficients))
        x = _times(polynomial / norm if step == 0 else polynomial, x)
    return x


def _gram_form(x: Tensor, gram: Tensor, norm: Tensor, steps: Steps, scale: float) -> Tensor:
    """The same polynomials as products of A alone: Q gathers the factors of X, and one restart computes A anew.

    Without the restart, rounding errors of A's small eigenvalues, which may be negative, would grow in every step.
    """
    x = _steps_of_gram(x, gram, steps[:RESTART], 1 / norm)
    return _steps_of_gram(x, _gram(x), steps[RESTART:], scale)


def _steps_of_gram(x: Tensor, gram: Tensor, steps: Steps, scale: float | Tensor) -> Tensor:
    product: Tensor | None = None  # Q, with polynomials of X = Q X
    last = len(steps) - 1
    for step, coefficients in enumerate(steps):
        polynomial = _polynomial(gram, *coefficients)
        if step < last:
            gram = torch.bmm(polynomial, torch.bmm(gram, polynomial))
        product = polynomial if product is None else torch.bmm(polynomial, product)
    assert product is not None
    return _times(product * scale, x)


def _is_tall(x: Tensor) -> bool:
    return x.shape[-2] > x.shape[-1]


def _times(factor: Tensor, x: Tensor) -> Tensor:
    """Product of a matrix of the size of `_gram(x)` with X: on the left if X is wide, on the right if it is tall."""
    return torch.bmm(x, factor) if _is_tall(x) else torch.bmm(factor, x)


def _gram(x: Tensor) -> Tensor:
    """A = X Xᵀ, or Xᵀ X if X is tall."""
    wide = x.mT if _is_tall(x) else x
    if _halves_products(wide):
        return _kernels().symmetric_product(wide)
    return torch.bmm(wide, wide.mT)


def _polynomial(gram: Tensor, a: float, b: float, c: float) -> Tensor:
    """P = a + b A + c A² of symmetric A."""
    if _halves_products(gram):
        return _kernels().symmetric_product(gram, factor=c, diagonal=a, added=gram, added_factor=b)
    polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
    polynomial.diagonal(dim1=-2, dim2=-1).add_(a)
    return polynomial


def _halves_products(x: Tensor) -> bool:
    """Whether a Triton kernel computes half of the symmetric products of these matrices, instead of cuBLAS all."""
    if not x.is_cuda or x.dtype != torch.bfloat16 or torch.compiler.is_compiling():
        return False
    is_large = x.shape[-2] >= KERNEL_FROM  # pragma: no cover - CUDA, which CI has not
    return (
        is_large and _kernels() is not None and torch.cuda.get_device_capability(x.device) >= (8, 0)
    )  # pragma: no cover


@cache
def _kernels() -> Any:
    """The module of the Triton kernel, or None without Triton."""
    try:
        from ._execution.fused import symmetric
    except ImportError:
        return None
    return symmetric
