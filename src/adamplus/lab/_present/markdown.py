"""Tables as Markdown has them."""

from collections.abc import Collection, Sequence


def table(head: Sequence[str], lines: Sequence[Sequence[str]], left: Collection[str]) -> str:
    """The columns that `left` names hold words; the others hold numbers, which end below each other."""
    rule = [":--" if name in left else "--:" for name in head]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *lines))
