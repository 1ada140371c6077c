"""The routing of a model by spectral_groups, in a form in which tests can write it down."""

import itertools
import re
from typing import Any

from torch import nn

from adamplus import spectral_groups


def routing(model: nn.Module, **arguments: Any) -> dict[str, str]:
    """The geometry and settings of each parameter, without weight decay, by its names with * for the first number.

    The groups are compared with this routing, and with the parameters of the model.
    """
    groups = spectral_groups(model, **arguments)
    found: dict[str, str] = {}
    for route in groups.routes:
        pattern = "=".join(re.sub(r"\b\d+\b", "*", name, count=1) for name in route.names)
        settings = [f"{name}={value}" for name, value in route.settings.items() if name != "weight_decay"]
        text = " ".join([route.geometry, *settings])
        assert found.setdefault(pattern, text) == text, pattern
        assert route.settings.get("weight_decay") == (0.0 if route.geometry == "sign" else None)
    named = dict(model.named_parameters())
    places = [(name, group) for group in groups for name in group["param_names"]]
    assert sorted(name for name, _ in places) == sorted(name for name, p in named.items() if p.requires_grad)
    routed = {route.names[0]: {"geometry": route.geometry, **route.settings} for route in groups.routes}
    for group in groups:
        assert all(p is named[name] for name, p in zip(group["param_names"], group["params"], strict=True))
    for name, group in places:
        assert {key: group[key] for key in group if key not in ("params", "param_names")} == routed[name]
    return found


def written(text: str) -> dict[str, str]:
    """A routing from lines such as `sign: embed.weight norm.{weight,bias}`."""
    lines = [line.strip().partition(": ") for line in text.strip().splitlines()]
    return {name: settings for settings, _, names in lines for part in names.split() for name in _names(part)}


def _names(text: str) -> list[str]:
    """Names with each choice in braces: a.{b,c} is a.b and a.c."""
    choices = [part.split(",") for part in re.split(r"[{}]", text)]
    return ["".join(parts) for parts in itertools.product(*choices)]
