"""HTML that is made of text: whatever is not markup already is escaped."""

import html
import json
from typing import Any


class Markup(str):
    """Text that is HTML."""

    __slots__ = ()


def tag(name: str, *content: str, **attributes: str | None) -> Markup:
    """An element. Attributes with a trailing underscore lose it, and those that are None are left out."""
    opened = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{opened}>{join(*content)}</{name}>")


def join(*content: str) -> Markup:
    """Pieces one after another."""
    return Markup("".join(piece if isinstance(piece, Markup) else html.escape(piece) for piece in content))


def embedded(content: Any) -> Markup:
    """JSON inside a script element, which no `</script>` in it can end."""
    return Markup(json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"))
