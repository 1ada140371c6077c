"""The rule that gives a parameter its geometry, by the module that it belongs to and by its name.

Modules of other packages are recognized by the names of their classes, because torch is the only dependency.
"""

import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.utils.parametrize import ParametrizationList

WEIGHTS = ("weight", "weight_v", "weight_orig")
"""Names of a layer's matrix: the last two are those of torch's weight norm, and of its pruning and spectral norm."""
PACKED = ("c_attn", "qkv", "qkv_proj", "to_qkv", "Wqkv", "W_pack")
"""Names of linear layers whose output is all queries, then all keys, then all values."""
GATED = ("gate_up_proj", "w12")
"""Names of linear layers whose output is a gate, and then what it multiplies."""
UP, DOWN = "gate_up_proj", "down_proj"
"""Names of the parameters of gated experts."""
EXPERTS = re.compile(r"proj$|^w\d*$|^weight$")
"""Names of the matrices of experts."""
BIAS = re.compile(r"(^|_)bias(es)?(_|$)")
TOKENS = re.compile(r"(^|_)(pos|positions?|positional)(_|$)|(^|_|pos)(emb(ed(ding)?)?s?|tokens?)(_parameter)?$")
STATE_MATRIX = "A_log"
"""Logarithms of a diagonal matrix for each channel, in state-space models such as Mamba."""
NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
"""A number that is a part of a name."""
EMBEDDING, LORA = "embedding", "LoRA"
NO_SHARDS = "use FSDP2 (torch.distributed.fsdp.fully_shard), whose parameters keep their shapes"


class Site(NamedTuple):
    """A place where a model has a parameter."""

    name: str
    module: nn.Module
    attribute: str
    parent: nn.Module
    """The module that `module` is a part of, or the model itself."""


class Rule(NamedTuple):
    """What a parameter is, its geometry, and how its matrices are stored (for a user who chooses "spectral", too)."""

    reason: str
    geometry: str
    layout: dict[str, Any]


def signs(reason: str) -> Rule:
    """The rule for a parameter that takes steps by signs."""
    return Rule(reason, "sign", {})


def matrices(reason: str, **layout: Any) -> Rule:
    """The rule for a parameter that consists of matrices."""
    return Rule(reason, "spectral", layout)


class UnroutedError(ValueError):
    """A parameter that has no rule."""


def sites_of(model: nn.Module) -> list[tuple[Tensor, list[Site]]]:
    """Each parameter of a model, once, with all places where the model has it."""
    found: dict[int, tuple[Tensor, list[Site]]] = {}
    modules = dict(model.named_modules(remove_duplicate=False))

    def site_in(path: str, attribute: str, name: str) -> Site:
        return Site(name, modules[path], attribute, modules[path.rpartition(".")[0]])

    for path, module in modules.items():
        for attribute, p in module._parameters.items():
            if p is not None:
                site = site_in(path, attribute, f"{path}.{attribute}" if path else attribute)
                if isinstance(module, ParametrizationList):
                    owner, _, computed = f".{path}".rpartition(".parametrizations.")
                    site = _parametrized(site, site_in(owner[1:], computed, site.name))
                found.setdefault(id(p), (p, []))[1].append(site)
    return list(found.values())


def _parametrized(site: Site, computed: Site) -> Site:
    """The site of the tensor that is computed from a parameter, if both have the same shape."""
    parametrizations: Any = site.module
    whole = "original1" if type(parametrizations[0]).__name__ == "_WeightNorm" else "original"
    return computed if site.attribute == whole else site


def choose_rule(p: Tensor, sites: Sequence[Site], heads: Collection[nn.Module]) -> Rule:
    """The rule for a parameter. Raise `UnroutedError` if there is none, or if its sites have different ones.

    A matrix that is an embedding at one site and belongs to a linear layer at another is an embedding.
    """
    rules = [_rule(p, site, heads) for site in sites]
    if any(rule.reason == EMBEDDING for rule in rules):
        return signs("embedding, tied" if len({site.module for site in sites}) > 1 else EMBEDDING)
    for site, rule in zip(sites, rules, strict=True):
        if rule[1:] != rules[0][1:]:
            first, second = pattern_of(sites[0].name), pattern_of(site.name)
            raise UnroutedError(
                f"is {_described(rules[0])} in {first} and {_described(rule)} in {second}: choose by "
                f"{example(second, **_settings(rule))}"
            )
    return rules[0]


def _described(rule: Rule) -> str:
    return f"{rule.reason} ({', '.join(f'{name}={value!r}' for name, value in _settings(rule).items())})"


def _settings(rule: Rule) -> dict[str, Any]:
    return {"geometry": rule.geometry, **(rule.layout if rule.geometry == "spectral" else {})}


def example(name: str, **settings: Any) -> str:
    """An override of a parameter in all layers, as a user would write it."""
    return f"overrides={{{pattern_of(name)!r}: {settings}}}"


def pattern_of(name: str) -> str:
    """The name of a parameter with * in place of numbers."""
    return NUMBER.sub("*", name)


def _rule(p: Tensor, site: Site, heads: Collection[nn.Module]) -> Rule:
    """The rule for a parameter at one of its sites."""
    if getattr(p, "_is_flat_param", False):
        raise UnroutedError(f"is a flat parameter of FSDP1, whose parts have lost their shapes: {NO_SHARDS}")
    if hasattr(p, "ds_shape"):
        raise UnroutedError(f"is partitioned by DeepSpeed's zero.Init, which hides its shape: {NO_SHARDS}")
    if BIAS.search(site.attribute):
        return signs("bias")
    rule = _of_module(p, site) or _of_name(p, site)
    return Rule("output head", "sign", rule.layout) if is_matrix(site) and site.module in heads else rule


def is_matrix(site: Site) -> bool:
    """Whether a site is the matrix of a linear layer or of a convolution."""
    return site.attribute in WEIGHTS and is_layer(site.module)


def is_layer(module: nn.Module) -> bool:
    """Whether a module is a linear layer, of torch or of another package, or a convolution."""
    if isinstance(module, (nn.Linear, _ConvNd)):
        return True
    return "weight" in module._parameters and _is_called(module, r"Linear(\d\w*)?$|^Conv1D$")


def is_adapter(name: str) -> bool:
    """Whether the name of a parameter or of a module is that of a LoRA adapter."""
    return any(part.startswith("lora_") for part in name.split("."))


def is_embedding(module: nn.Module) -> bool:
    """Whether a module is an embedding, of torch or of another package."""
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return True
    return "weight" in module._parameters and not is_layer(module) and _is_called(module, "Embedding")


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a normalization, of torch or of another package."""
    return isinstance(module, (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, _NormBase)) or _is_called(module, r"Norm(\dd)?$")


def _is_called(module: nn.Module, pattern: str) -> bool:
    """Whether the name of a module's class or of a base class matches. FSDP2, for one, derives a class of its own."""
    return any(re.search(pattern, cls.__name__) for cls in type(module).__mro__)


def _of_module(p: Tensor, site: Site) -> Rule | None:
    """The rule for a parameter of a module that is known, by its class or by the name of its class."""
    if "lora_magnitude_vector" in site.name:  # of a DoraLinearLayer
        return signs("vector")
    rule = _of_matrix(p, site)
    if rule is None and site.attribute in WEIGHTS and is_embedding(site.module):
        rule = signs(EMBEDDING)
    experts = _is_called(site.module, "Expert")
    if p.dim() < 2 and (rule is not None or (experts and EXPERTS.search(site.attribute))):
        raise UnroutedError(
            f"has shape {tuple(p.shape)}, where a {type(site.module).__name__} has a matrix. It is a flattened shard, "
            f"as FSDP1 and DeepSpeed make them: {NO_SHARDS}"
        )
    if rule is not None:
        return rule
    if is_norm(site.module):
        return signs("norm")
    return _of_experts(p, site) if experts else None


def _of_matrix(p: Tensor, site: Site) -> Rule | None:
    """The rule for the matrices of a layer."""
    module, attribute = site.module, site.attribute
    if isinstance(module, nn.MultiheadAttention):
        if attribute == "in_proj_weight":
            return matrices("queries, keys, values", blocks=3)
        return matrices("linear") if attribute.endswith("_proj_weight") else None
    if isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
        gates = 1 if attribute.startswith("weight_hr") else p.shape[0] // module.hidden_size
        return matrices("recurrent", blocks=gates) if gates > 1 else matrices("recurrent")
    if attribute not in WEIGHTS:
        return None
    if isinstance(module, _ConvNd):
        return matrices(LORA) if is_adapter(site.name) else _of_convolution(module)
    if isinstance(module, nn.Bilinear):
        return matrices("bilinear")
    if p.dim() > 2:
        return None
    if is_layer(module):
        return _of_linear(p, site, {"transposed": True} if _is_called(module, "^Conv1D$") else {})
    return matrices("router") if _is_called(module, "Router|Gate(?!d)") else None


def _of_convolution(module: _ConvNd) -> Rule:
    transposed, groups = isinstance(module, _ConvTransposeNd), module.groups
    name = "transposed convolution" if transposed else "convolution"
    if groups == 1:
        return matrices(name, transposed=True) if transposed else matrices(name)
    if (module.out_channels if transposed else module.in_channels) == groups:
        return signs(f"depthwise {name}")  # one filter for each channel, which is not a matrix
    if transposed:
        return signs(f"grouped {name}")  # groups divide its d_in, and blocks divide d_out
    return matrices(f"grouped {name}", blocks=groups)


def _of_linear(p: Tensor, site: Site, layout: dict[str, Any]) -> Rule:
    """The rule for a linear layer, which may consist of several side by side."""
    if is_adapter(site.name):
        return matrices(LORA, **layout)
    path = [part for part in site.name.split(".")[:-1] if part not in ("base_layer", "parametrizations", "weight")]
    name = path[-1] if path else ""
    if p.dim() == 2 and name in PACKED:
        d_in, d_out = p.shape if layout else (p.shape[1], p.shape[0])
        return matrices("queries, keys, values", **layout, blocks=_sizes(d_out, d_in, site))
    if p.dim() == 2 and name in GATED:
        return matrices("gate and up", **layout, blocks=2)
    return matrices("linear", **layout)


def _sizes(d_out: int, d_in: int, site: Site) -> int | tuple[int, ...]:
    """Number or sizes of the queries, keys and values that d_out consists of."""
    names = ("num_key_value_heads", "num_attention_heads", "num_heads")
    numbers = [getattr(site.parent, name, None) for name in ("head_dim", *names)]
    head, *heads = [n if isinstance(n, int) else 0 for n in numbers]
    keys = head * next(filter(None, heads), 0)
    if d_out in (3 * keys, 3 * d_in):
        return 3
    if heads[0] and 0 < 2 * keys < d_out:
        return (d_out - 2 * keys, keys, keys)
    if d_out == 2 * d_in:  # keys and values of another sequence, as in GPT-2
        return 2
    raise UnroutedError(
        f"has (d_out, d_in) = ({d_out}, {d_in}), which does not give the sizes of its queries, keys and values. Pass "
        f"them: {example(site.name, geometry='spectral', blocks=(d_out // 3,) * 3)}, with sizes that sum to {d_out}, "
        "or blocks=1 for one matrix"
    )


def _of_experts(p: Tensor, site: Site) -> Rule | None:
    """The rule for matrices of experts, stacked in one parameter [experts, m, n].

    transformers documents how they are stored in `is_transposed` and `is_concatenated`. Else the shapes of gated
    experts tell it: [2 i, h] and [h, i], or [h, 2 i] and [i, h].
    """
    module = site.module
    if p.dim() != 3:
        return None
    transposed = getattr(module, "is_transposed", None)
    up, down = (module._parameters.get(name) for name in (UP, DOWN))
    if transposed is None and up is not None and down is not None and up.dim() == down.dim() == 3:
        _, *(a, b), m, n = *up.shape, *down.shape[1:]
        transposed = {(2 * n, m): False, (n, 2 * m): True}.get((a, b))
    if transposed is None:
        return None
    layout: dict[str, Any] = {"stacked": True, **({"transposed": True} if transposed else {})}
    # GPT-OSS has gates and what they multiply in turns, which is one matrix
    if site.attribute == UP and getattr(module, "is_concatenated", not _is_called(module, "^GptOss")):
        layout["blocks"] = 2
    return matrices("experts", **layout)


def _of_name(p: Tensor, site: Site) -> Rule:
    """The rule for a parameter of a module that is not known, by its name and its shape."""
    label = site.attribute
    if isinstance(site.module, (nn.ParameterList, nn.ParameterDict)):
        label = next((part for part in reversed(site.name.split(".")[:-1]) if not part.isdigit()), label)
    if BIAS.search(label):
        return signs("bias")
    if sum(size != 1 for size in p.shape) <= 1:
        return signs("vector")
    if is_adapter(site.name):
        return signs("LoRA of an embedding") if "lora_embedding_A" in site.name else matrices(LORA)
    if TOKENS.search(label):
        return signs("positions or tokens")
    if label == STATE_MATRIX:
        return signs("state matrix")
    raise UnroutedError(
        f"has shape {tuple(p.shape)} and belongs to a {type(site.module).__name__}, and no rule says whether it is a "
        f"matrix. Choose by {example(site.name, geometry='spectral')}, with 'transposed': True if it is stored as "
        "(d_in, d_out) and 'stacked': True if its last two dimensions are matrices, or by 'geometry': 'sign'"
    )
