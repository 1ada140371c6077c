"""Routing of a model's parameters: hidden matrices, and everything else."""

from typing import Any

from torch import nn

from adamplus import spectral_groups

from ..errors import InputError


def routed(model: nn.Module, **settings: Any) -> list[dict[str, Any]]:
    """The groups of `spectral_groups`: "spectral" for hidden matrices, "sign" for embeddings, heads and vectors.

    Args:
        model: the model.
        settings: arguments of `spectral_groups`.

    Raises:
        InputError: if a parameter's place in the model is not known.
    """
    try:
        return spectral_groups(model, **settings)
    except ValueError as error:
        raise InputError(
            f"{error}\nIn a task, let the model's output layer be its last child and call it `head`, or define "
            "get_output_embeddings() to return it"
        ) from error
