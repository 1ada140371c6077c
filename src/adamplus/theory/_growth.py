"""The two sums of the paper's Table 1 on which data-dependent complexities depend: Type I and Type II."""

from torch import Tensor


def type1_growth(gradients: Tensor) -> Tensor:
    r"""Type I: Σ_i ‖g_{1:t,i}‖ for t = 1 … T, the sum over coordinates of the norms of their gradient histories.

    .. math::
        \sum_{i=1}^d \|g_{1:t,i}\| = \sum_{i=1}^d \Bigl(\sum_{k=1}^t g_{k,i}^2\Bigr)^{1/2}

    The complexity of Adam-type methods (generalized Adam, PAdam, stagewise AdaGrad) depends on it. It grows as t^(1/2)
    if gradients, noise included, keep their size, and slower only if coordinates become quiet.

    Args:
        gradients: the stochastic gradients g_1 … g_T, [T, …, d]. Dimensions between are runs.

    Returns:
        The sums [T, …]. `growth_exponent` fits the exponent with which they grow.

    Example:
        >>> adamplus.theory.type1_growth(torch.tensor([[3.0, 1.0], [4.0, 0.0]])).tolist()    # 3 + 1, 5 + 1
        [4.0, 6.0]
    """
    return gradients.square().cumsum(0).sqrt().sum(-1)


def type2_growth(z: Tensor) -> Tensor:
    r"""Type II: Σ_k ‖z_k‖ for t = 1 … T, the sum of the norms of the averaged gradients.

    .. math::
        \sum_{k=1}^t \|z_k\|

    The complexity of Adam⁺ in Theorem 1 depends on it. It grows as t if ‖z‖ keeps its size, and slower if both ∇F and
    the error of z become small. `GrowthProbe` measures it during training.

    Args:
        z: z_1 … z_T, [T, …, d]. Dimensions between are runs.

    Returns:
        The sums [T, …]. `growth_exponent` fits the exponent with which they grow.

    Example:
        >>> adamplus.theory.type2_growth(torch.tensor([[3.0, 4.0], [0.0, 2.0]])).tolist()    # 5, 5 + 2
        [5.0, 7.0]
    """
    return z.norm(dim=-1).cumsum(0)
