"""The output heads of a model: the layers whose outputs are the model's."""

import re
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import takewhile

from torch import nn

from .rules import is_adapter, is_embedding, is_layer, is_norm

GETTERS = ("get_output_embeddings", "get_classifier")
"""Methods that return the head, of transformers' models and of timm's."""
CERTAIN = re.compile(r"(?!pre_)(\w+_)?(lm_head|classifiers?|score|logits|qa_outputs|unembed(ding)?)")
"""Names of heads, wherever they stand among the children: XLM-RoBERTa's classifier is the first."""
LAST = re.compile(r"(?!conv_)(\w+_)?(heads?|predictors?)(_dist)?")
"""Names of heads if they are the last children: EDSR's head is its first layer, EfficientNet's conv_head is hidden."""
PERHAPS = re.compile(
    r"(\w+_)?(fc|outputs?)|(output|final|last)_(layer|linear|proj|fc)|(proj|fc|conv|linear|lin)_out|out_proj|out"
)
"""Names of heads if they are the last children, and no others have better names."""


def find_heads(model: nn.Module) -> list[nn.Module] | None:
    """The heads of a model, [] if it documents that it has none, or None if they cannot be known.

    They are what `get_output_embeddings()` and `get_classifier()` return, or else the children that have names of
    heads, or else the last layer of a Sequential, or the heads of the only child that has matrices.
    """
    if is_layer(model):
        return [model]
    if isinstance(layer := getattr(model, "base_layer", None), nn.Module):  # of peft
        return find_heads(layer)
    documented = _documented(model)
    if documented is not None:
        return documented
    children = {name: child for name, child in model.named_children() if _has_matrices(child)}
    if names := _names_of_heads(list(children)):
        return [layer for name in names for layer in last_layers(children[name])]
    if getattr(model, "base_model", None) is model and type(model).__name__.endswith("Model"):
        return []  # of transformers, without a head for a task, as BertModel
    if children and (len(children) == 1 or isinstance(model, nn.Sequential)):
        found = find_heads([*children.values()][-1])
        # RTDetrForObjectDetection has its heads somewhere in its RTDetrModel, which as such has none
        return None if found == [] and re.search(r"For[A-Z]", type(model).__name__) else found
    return None


def _names_of_heads(children: list[str]) -> list[str]:
    """Which of the children, in order, are heads by their names."""

    def at_the_end(*patterns: re.Pattern[str]) -> list[str]:
        named = takewhile(lambda name: any(p.fullmatch(name) for p in patterns), reversed(children))
        return [*named][::-1]

    certain = [name for name in children if CERTAIN.fullmatch(name)]
    last = at_the_end(LAST, CERTAIN)
    if certain:  # then a "head" is the layer before it, as in ModernBERT
        return [name for name in children if name in certain or (name in last and name != "head")]
    return last or at_the_end(PERHAPS)


def heads_named(model: nn.Module, patterns: Iterable[str]) -> list[nn.Module]:
    """The heads of each module that a name or pattern matches, or its last layer. Raise if it matches none."""
    modules = dict(model.named_modules(remove_duplicate=False))
    heads: list[nn.Module] = []
    for pattern in patterns:
        matched = [name for name in modules if name and fnmatchcase(name, pattern)]
        found = [layer for name in matched for layer in last_layers(modules[name])]
        if not found:
            what = f"{', '.join(matched)}, without a layer" if matched else "no module"
            raise ValueError(
                f"head={pattern!r} matches {what}: pass the name of a layer, or of a module that ends with one, as "
                "model.named_modules() has it, or head=() if the model has no output head"
            )
        heads += found
    return heads


def last_layers(module: nn.Module) -> list[nn.Module]:
    """The heads of a module, or its last layer if they cannot be known."""
    layers = [part for name, part in module.named_modules() if is_layer(part) and not is_adapter(name)]
    return find_heads(module) or layers[-1:]


def _documented(model: nn.Module) -> list[nn.Module] | None:
    """The heads that a model's methods return, or None if they return nothing."""
    heads: list[nn.Module] | None = None
    for name in GETTERS:
        if callable(getter := getattr(model, name, None)):
            with suppress(AttributeError, NotImplementedError):  # inherited, and not supported by this model
                returned = getter()
                for head in returned if isinstance(returned, (tuple, list)) else (returned,):
                    if isinstance(head, nn.Module):
                        heads = [*(heads or []), *last_layers(head)]
    return heads


def _has_matrices(module: nn.Module) -> bool:
    """Whether a module has matrices that are not embeddings."""
    return any(
        is_layer(part)
        or any(p is not None and p.dim() > 1 and not is_embedding(part) for p in part._parameters.values())
        for part in module.modules()
        if not is_norm(part)
    )
