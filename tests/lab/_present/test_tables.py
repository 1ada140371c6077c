"""Tables as Markdown, CSV, LaTeX and terminal text; elements of HTML."""

from io import StringIO

import pytest
from rich.console import Console

from adamplus.lab._present.html import embedded, tag
from adamplus.lab._present.tables import csv_table, escape_markdown, latex_table, markdown_table, terminal_table


def test_markdown_aligns_text_left_and_numbers_right():
    assert markdown_table(["name", "n"], [["a", "1"]], left=["name"]) == "| name | n |\n| :-- | --: |\n| a | 1 |"
    assert escape_markdown("a|b_c\n d") == r"a\|b\_c d"


def test_csv_leaves_cells_of_none_empty_and_quotes_commas():
    assert csv_table(["a", "b"], [[1, None], ["x,y", 0.1]]) == 'a,b\n1,\n"x,y",0.1\n'


def test_latex_escapes_its_signs():
    assert latex_table("a title", ["name", "n"], [["50 % ±", "−1"]], left=["name"]) == (
        "% a title\n\\begin{tabular}{lr}\n\\toprule\nname & n \\\\\n\\midrule\n"
        "50 \\% $\\pm$ & $-$1 \\\\\n\\bottomrule\n\\end{tabular}"
    )


@pytest.mark.parametrize(("width", "shown"), [(60, ["a", "b", "c"]), (14, ["a", "c"]), (8, ["a"])])
def test_narrow_terminals_lose_dispensable_columns_in_order(width: int, shown: list[str]):
    groups = [[["[b]", "2", "3", "–"]], [["x", "5", "6", "–"]]]
    table = terminal_table(["a", "b", "c", "empty"], groups, width, left=["a"], dispensable=["b", "c"])
    assert [str(column.header) for column in table.columns] == shown
    out = StringIO()
    Console(file=out, width=60).print(table)
    assert "[b]" in out.getvalue()  # a cell is text and not markup


def test_elements_escape_text_and_attributes():
    assert tag("p", "a<b", class_='"x"') == '<p class="&quot;x&quot;">a&lt;b</p>'
    assert "<" not in embedded({"name": "</script>"})
