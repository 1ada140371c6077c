"""`spectral_groups`: the parameter groups of SpectralPlus for a model, by module and by name."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ._directions import GEOMETRIES, check_geometry
from ._layout import local
from ._routing import (
    LORA,
    Route,
    Rule,
    Site,
    UnroutedError,
    choose_rule,
    find_heads,
    heads_named,
    is_embedding,
    is_matrix,
    pattern_of,
    sites_of,
    table,
)
from ._spectral_plus import SpectralPlus

Settings = Mapping[str, Any]
Sites = Sequence[tuple[Tensor, Sequence[Site]]]

SETTINGS = {
    name: parameter.default
    for name, parameter in inspect.signature(SpectralPlus).parameters.items()
    if name not in ("params", "foreach", "fused", "capturable")
}
"""Settings in which groups may differ, with the defaults of SpectralPlus."""
DEFAULTS: dict[str, dict[str, Any]] = {"spectral": {}, "sign": {"weight_decay": 0.0}}
STORED = ("stacked", "transposed", "blocks")
"""Settings that say how matrices are stored."""
OVERRIDE = "override"
AT_MOST = 20
"""Number of parameters that an error message lists."""


class SpectralGroups(list[dict[str, Any]]):
    """Parameter groups, and the routing that made them, which `print` shows as a table."""

    routes: list[Route]
    """Where each parameter of the model goes, frozen ones included."""

    def __init__(self, groups: Iterable[dict[str, Any]], routes: Iterable[Route]) -> None:
        super().__init__(groups)
        self.routes = list(routes)

    def __repr__(self) -> str:
        return table(self.routes)


def spectral_groups(
    model: nn.Module,
    *,
    head: str | Iterable[str] | None = None,
    overrides: Mapping[str, Settings] | None = None,
    spectral: Settings | None = None,
    sign: Settings | None = None,
) -> SpectralGroups:
    """Return the parameter groups of `SpectralPlus` for a model, with a geometry for each parameter.

    The module of a parameter and its name decide. `print(groups)` shows the routing as a table. If there is no rule for
    a parameter, an error says what to pass.

    ======================================================  ==========  ==============================================
    parameter                                               geometry    matrices
    ======================================================  ==========  ==============================================
    weight of Linear, or of a class with such a name        spectral    one
    packed queries, keys and values¹                        spectral    three (`blocks`)
    packed gate and up projections²                         spectral    two (`blocks`)
    weight of Conv1D in transformers                        spectral    as of Linear (`transposed`)
    weight of a convolution                                 spectral    one for each group (`blocks`)
    weight of a transposed convolution                      spectral    one (`transposed`)
    weight of RNN, GRU, LSTM and their cells                spectral    one for each gate (`blocks`)
    weight of Bilinear                                      spectral    one of shape (d_out, d_in1 · d_in2)
    router or gate of experts                               spectral    one
    experts in one parameter of 3 dimensions                spectral    one or two for each expert (`stacked`)
    A and B of LoRA                                         spectral    one
    embedding, whether tied or not; A of LoRA for it        sign
    output head                                             sign
    depthwise or grouped transposed convolution³            sign
    norm, bias, vector, scalar                              sign
    positions, tokens, state matrix A_log                   sign
    ======================================================  ==========  ==============================================

    ¹ In MultiheadAttention, and in layers named `qkv`, `qkv_proj`, `to_qkv`, `Wqkv`, `W_pack` and `c_attn`. Models
    disagree on the order of rows in `query_key_value`, so it is one matrix. ² In layers and experts named
    `gate_up_proj` and `w12`. ³ A depthwise convolution has filters and no matrices, and no setting describes the
    matrices of the other one.

    Modules of other packages are recognized by the names of their classes. Parameters of unknown modules are recognized
    by their names ("bias", "pos_embed", "cls_token"), and if all sizes but one are 1, they are vectors.

    Output heads are what `model.get_output_embeddings()` (transformers) or `model.get_classifier()` (timm) returns. In
    other models, they are the children named `lm_head`, `classifier`, `score` or the like, and the last children if
    they are named `head`, `output`, `fc` or the like. If such a child has several layers, its last one is the head.
    Without such names, the head is the layer that is tied to an embedding, the last layer of a Sequential, or the only
    layer. For all other models, pass `head`.

    Parameters with equal settings form one group. `param_names` of a group are their names, as if the optimizer were
    made of `model.named_parameters()`, so parameters that are added to it later need names, too. Frozen parameters are
    in no group. DTensors (FSDP2, tensor parallelism) are routed like other parameters.

    Args:
        model: the model, after layers were frozen and adapters added.
        head: name or names of the modules that are output heads, or () if there are none. `*` and `?` match as in file
            names. Default: output heads are found as described above.
        overrides: settings by the name of a parameter, or of a module for all parameters in it. `*` and `?` match as in
            file names. These settings replace those of the rules.
        spectral: settings of the groups with geometry "spectral".
        sign: settings of the groups with geometry "sign". Default: `weight_decay=0.0`.

    Returns:
        A list of groups. Its attribute `routes` lists the names, shape, geometry and settings of each parameter, and
        the reason for them.

    Raises:
        ValueError: no parameter requires a gradient; a parameter has no rule, or two that disagree; a vector is where a
            module has a matrix, as in shards of FSDP1 and DeepSpeed; two parameters share memory, so that a tie is
            broken; no output head is found; a pattern matches nothing; two overrides of one parameter disagree; a
            setting is unknown or does not fit.

    Example:
        >>> model = torch.nn.Sequential()
        >>> model.embed = torch.nn.Embedding(50, 8)
        >>> model.blocks = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4)))
        >>> model.head = torch.nn.Linear(8, 50)
        >>> groups = adamplus.spectral_groups(model, overrides={"embed": {"scale": 0.06}})
        >>> print(groups)
        parameter            shape   tensors  geometry  reason       settings
        embed.weight         50 × 8        1  sign      embedding    weight_decay=0.0, scale=0.06
        blocks.{0-3}.weight  8 × 8         4  spectral  linear
        blocks.{0-3}.bias    8             4  sign      bias         weight_decay=0.0
        head.weight          50 × 8        1  sign      output head  weight_decay=0.0
        head.bias            50            1  sign      bias         weight_decay=0.0
        spectral: 256 elements in 4 tensors
        sign: 882 elements in 7 tensors
        >>> optimizer = adamplus.SpectralPlus(groups, lr=0.02)
    """
    own = {"spectral": _checked("spectral", spectral), "sign": _checked("sign", sign)}
    given = {pattern: _checked(f"overrides[{pattern!r}]", some) for pattern, some in (overrides or {}).items()}
    parameters = sites_of(model)
    _refuse(parameters, own, given)
    heads = _heads(model, head, parameters)

    groups: list[dict[str, Any]] = []
    routes: list[Route] = []
    problems: list[str] = []
    for p, sites in parameters:
        try:
            routes.append(_route(p, sites, heads or [], own, given))
        except UnroutedError as error:
            problems.append(f"{pattern_of(sites[0].name)} {error}")
        else:
            _add(groups, p, routes[-1])
    if problems:
        raise ValueError(_listed("there is no rule for some parameters", [*dict.fromkeys(problems)]))
    if heads is None:
        _refuse_unknown_head(routes)
    return SpectralGroups(groups, routes)


def _checked(what: str, settings: Settings | None) -> dict[str, Any]:
    """Settings that a user passes. Raise for names that groups do not have."""
    if settings is not None and not isinstance(settings, Mapping):
        raise TypeError(f"{what} must be a dict of settings, got {settings!r}")
    settings = dict(settings or {})
    if unknown := [name for name in settings if name not in SETTINGS]:
        raise ValueError(
            f"{what} has the unknown setting {', '.join(map(str, unknown))}: groups may have {', '.join(SETTINGS)}"
        )
    if settings.get("geometry", "sign") not in GEOMETRIES:
        names = ", ".join(map(repr, GEOMETRIES))
        raise ValueError(f"geometry in {what} must be one of {names}, got {settings['geometry']!r}")
    return settings


def _refuse(parameters: Sites, own: dict[str, dict[str, Any]], given: dict[str, dict[str, Any]]) -> None:
    """Raise for a model that cannot be trained as it is, and for arguments that do not fit it."""
    for geometry, settings in own.items():
        if "geometry" in settings:
            raise ValueError(f"{geometry}= has settings for that geometry: choose geometries by overrides=")
    names = [site.name for _, sites in parameters for site in sites]
    for pattern in given:
        if not any(_matches(pattern, name) for name in names):
            raise ValueError(
                f"overrides[{pattern!r}] matches no parameter: names are those of model.named_parameters() and "
                "model.named_modules()"
            )
    if lazy := [sites[0].name for p, sites in parameters if is_lazy(p)]:
        raise ValueError(_listed("parameters have no shape yet: run a forward pass first", lazy))
    if not any(p.requires_grad for p, _ in parameters):
        raise ValueError("no parameter of the model requires a gradient: unfreeze some, or add adapters")
    seen: dict[Any, tuple[str, bool]] = {}
    for p, sites in parameters:
        t, name = local(p.detach()), sites[0].name
        if type(t) is Tensor and not t.is_meta and t.numel() > 0:  # other tensors may have no address
            other, trained = seen.setdefault((t.device, t.data_ptr()), (name, p.requires_grad))
            if other != name and (trained or p.requires_grad):
                raise ValueError(
                    f"{other} and {name} are two parameters with one memory, as if a tie were broken: a step would "
                    f"move both twice. Tie them by making {name} the same nn.Parameter as {other}, or copy one"
                )


def _matches(pattern: str, name: str) -> bool:
    """Whether a pattern matches the name of a parameter, or of a module that it is in."""
    parts = name.split(".")
    return any(fnmatchcase(".".join(parts[:i]), pattern) for i in range(1, len(parts) + 1))


def _heads(model: nn.Module, head: str | Iterable[str] | None, parameters: Sites) -> list[nn.Module] | None:
    """The output heads, or None if they are not known."""
    if head is not None:
        return heads_named(model, [head] if isinstance(head, str) else head)
    found = find_heads(model)
    tied = any(
        any(is_embedding(site.module) for site in sites) and any(is_matrix(site) for site in sites)
        for _, sites in parameters
    )
    return [] if found is None and tied else found


def _route(
    p: Tensor,
    sites: Sequence[Site],
    heads: Sequence[nn.Module],
    own: dict[str, dict[str, Any]],
    given: dict[str, dict[str, Any]],
) -> Route:
    """Where a parameter goes. Raise `UnroutedError` if that is not known."""
    names, shape = tuple(site.name for site in sites), tuple(p.shape)
    if not p.requires_grad:
        return Route(names, shape, "frozen", "", {})
    override = _override(names, given)
    try:
        rule = choose_rule(p, sites, heads)
    except UnroutedError:
        if "geometry" not in override:
            raise
        rule = Rule(OVERRIDE, override["geometry"], {})
    geometry = override.pop("geometry", None)
    reason, geometry = (OVERRIDE, geometry) if geometry else (rule.reason, rule.geometry)
    layout = rule.layout if geometry == "spectral" else {}
    settings = {**DEFAULTS[geometry], **own[geometry], **layout, **override}
    if geometry == "sign" and (vain := [name for name in STORED if name in override]):
        raise ValueError(
            f"overrides has {', '.join(vain)} for {names[0]}, whose geometry is 'sign' ({reason}), where that has no "
            "effect: add 'geometry': 'spectral', or use a pattern that matches matrices only"
        )
    try:
        check_geometry({**SETTINGS, **settings, "geometry": geometry}, [p])
    except (TypeError, ValueError) as error:
        raise type(error)(f"{names[0]} ({geometry}, {reason}): {error}") from None
    return Route(names, shape, geometry, reason, settings)


def _override(names: Sequence[str], given: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The settings that a user gives a parameter."""
    settings: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for pattern, some in given.items():
        if any(_matches(pattern, name) for name in names):
            for name, value in some.items():
                if settings.setdefault(name, value) != value:
                    raise ValueError(
                        f"overrides[{origin[name]!r}] and overrides[{pattern!r}] both match {names[0]}, and give it "
                        f"{name}={settings[name]!r} and {name}={value!r}: use patterns of which one matches"
                    )
                origin.setdefault(name, pattern)
    return settings


def _add(groups: list[dict[str, Any]], p: Tensor, route: Route) -> None:
    """Add a parameter to the group that has its settings."""
    if route.geometry == "frozen":
        return
    settings = {"geometry": route.geometry, **route.settings}
    for group in groups:
        if {name: value for name, value in group.items() if name not in ("params", "param_names")} == settings:
            break
    else:
        groups.append(group := {"params": [], "param_names": [], **settings})
    group["params"].append(p)
    group["param_names"].append(route.names[0])


def _refuse_unknown_head(routes: Sequence[Route]) -> None:
    """Raise if one of the spectral matrices may be the output head."""
    matrices = [
        pattern_of(route.names[0])
        for route in routes
        if route.geometry == "spectral" and route.reason not in (LORA, OVERRIDE)
    ]
    if matrices:
        raise ValueError(
            _listed(
                "the output head is not known: pass head= with the name of its module, or head=() if the model has "
                "none. It may be one of these",
                [*dict.fromkeys(reversed(matrices))],
            )
        )


def _listed(what: str, items: Sequence[str]) -> str:
    """A message with a list of parameters."""
    more = [f"and {len(items) - AT_MOST} more"] if len(items) > AT_MOST else []
    return "\n    ".join([f"{what}:", *items[:AT_MOST], *more])
