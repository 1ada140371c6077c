"""Writes the map of the code into CONTRIBUTING.md, from the first line of every file: python docs/tables/map.py."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- map: python docs/tables/map.py -->\n", "<!-- end of map -->\n"


def first_line(path: Path) -> str:
    """The first line of a file's docstring, or of its first comment in C."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".c":
        return text.removeprefix("/* ").partition("\n")[0]
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


def map_of(source: Path) -> Iterator[str]:
    """Lines of Markdown: a heading for each folder, an entry for each file."""
    for folder in sorted({path.parent for path in source.rglob("*.py")}):
        files = sorted(path for path in folder.iterdir() if path.suffix in (".py", ".c"))
        name = folder.relative_to(source.parent).as_posix()
        yield f"\n**`{name}/`** {first_line(folder / '__init__.py')}\n"
        yield from (f"- `{path.name}`: {first_line(path)}" for path in files if path.name != "__init__.py")


def page_with_map(page: str) -> str:
    """The page with the map between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n".join(map_of(ROOT / "src" / "adamplus")) + "\n\n" + END + after


if __name__ == "__main__":
    PAGE.write_text(page_with_map(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
