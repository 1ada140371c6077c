"""Docstrings as the API reference shows them: formulas in MathML, tables in Markdown, examples as code."""

import re
from typing import Any
from xml.sax.saxutils import escape

import griffe
from latex2mathml.converter import convert

MATH = re.compile(r"^( *)\.\. math::\n((?:\1 +.*\n?|\s*\n)+)", re.MULTILINE)
TABLE = re.compile(r"^( *)(=+(?: +=+)+)\n(.*)\n\1\2\n((?:.*\n)*?)\1\2$", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object that has one."""
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)


def rewritten(text: str) -> str:
    """A docstring as mkdocstrings understands it."""
    text = MATH.sub(lambda block: f"{block[1]}{mathml(block[2])}\n\n", text + "\n").rstrip()
    text = TABLE.sub(lambda table: markdown_table(table), text)
    text = re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)
    return re.sub(r"^References?:\n((?: {4}.*\n?|\n)+)", _references, text, flags=re.MULTILINE)


def mathml(latex: str) -> str:
    """Displayed formulas, one row for each, aligned at `&`. Browsers draw MathML without scripts and fonts."""
    rows = [[cell.strip() for cell in row.split("&")] for row in latex.strip().split(r"\\")]
    cells = ["".join(f"<mtd>{_inner(cell)}</mtd>" for cell in row) for row in rows]
    table = "".join(f"<mtr>{row}</mtr>" for row in cells)
    formula = f'<math display="block"><mtable displaystyle="true">{table}</mtable></math>'
    return f'<div class="formula" tabindex="0">{formula}</div>'


def _inner(latex: str) -> str:
    """The MathML of one cell, without its outermost element."""
    if not latex:
        return ""
    return re.sub(r"^<math[^>]*>|</math>$", "", convert(" ".join(latex.split())))


def markdown_table(table: re.Match[str]) -> str:
    """A simple table of reStructuredText as a table of Markdown."""
    indent, rule, header, body = table[1], table[2], table[3], table[4]
    columns = [column.span() for column in re.finditer("=+", rule)]

    def row(line: str) -> str:
        line = line.removeprefix(indent)
        cells = [line[start : None if (start, end) == columns[-1] else end].strip() for start, end in columns]
        return f"{indent}| " + " | ".join(escape(cell).replace("|", r"\|") for cell in cells) + " |"

    lines = [row(header), f"{indent}|" + " --- |" * len(columns), *map(row, body.splitlines())]
    return "\n".join(lines)


def _references(section: re.Match[str]) -> str:
    """References as paragraphs below a heading in bold, instead of a box."""
    return "**References**\n\n" + re.sub(r"^ {4}", "", section[1], flags=re.MULTILINE)
