"""HTML elements; text that is not `Markup` is escaped."""

import html
import json
from typing import Any


class Markup(str):
    """HTML, which is not escaped again."""

    __slots__ = ()


def tag(name: str, *content: str, **attributes: str | None) -> Markup:
    """An element; attributes lose a trailing underscore (`class_`), and those that are None are left out."""
    opened = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{opened}>{join(*content)}</{name}>")


def join(*content: str) -> Markup:
    """Texts and elements one after another."""
    return Markup("".join(piece if isinstance(piece, Markup) else html.escape(piece) for piece in content))


def embedded(content: Any) -> Markup:
    """JSON for a script element: a `</script>` inside a string cannot end the element."""
    return Markup(json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"))
