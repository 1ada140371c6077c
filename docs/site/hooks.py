"""Hooks of the site: results, examples and others become pages, and links into the repository work.

Pages link to each other by their places in the repository, as they are read there. In the site, a link to a page or
picture of the site leads there. A link to any other file, or to one that `exclude_docs` names, leads to `repo_url` of
mkdocs.yml, and is text without it.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from posixpath import join, normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages at the root of the repository, and where they are in the site."""
CODE = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s#]*)(#[^()\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures from outside of docs/."""
    for path in sorted([*(ROOT / "results").rglob("*.md"), *(ROOT / "results").rglob("*.png")]):
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for name, place in PAGES.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / name)))
    for path in sorted((ROOT / "examples").glob("*.py")):
        code = path.read_text(encoding="utf-8")
        page = f"---\nsearch:\n  exclude: true\n---\n# {path.name}\n\n```python\n{code}```\n"
        files.append(File.generated(config, f"examples/{path.stem}.md", content=page))
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        pictures: dict[str, bytes] = {}
        page = "\n\n".join(cells(json.loads(path.read_text(encoding="utf-8")), pictures))
        files.append(File.generated(config, f"examples/{path.stem}.md", content=page))
        for name, content in pictures.items():
            files.append(File.generated(config, f"examples/{name}", content=content))
    return files


def cells(notebook: dict[str, Any], pictures: dict[str, bytes]) -> Iterator[str]:
    """The cells of a notebook as Markdown. Its pictures are put into `pictures`, by their names."""
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        yield source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"
        for output in cell.get("outputs", ()):
            if "text" in output:
                yield "```text\n" + "".join(output["text"]).rstrip() + "\n```"
            else:
                name = f"{cell['id']}.png"
                pictures[name] = base64.b64decode(output["data"]["image/png"])
                yield f"![What the code above draws]({name})"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page."""
    here = page.file.src_uri
    if here.startswith("examples/"):
        return markdown
    source = next((name for name, place in PAGES.items() if place == here), None)
    source = source or (here if here.startswith("results/") else f"docs/{here}")

    def rewritten(link: re.Match[str]) -> str:
        image, text, target, anchor = link[1], link[2], link[3], link[4] or ""
        if not target or "://" in target or target.startswith("mailto:"):
            return link[0]
        path = normpath(join(source, "..", target))
        place = PAGES.get(path, path.removeprefix("docs/"))
        if path.startswith(("docs/", "examples/", "results/")) or path in PAGES:
            for found in (place, f"{place}/README.md", re.sub(r"\.(py|ipynb)$", ".md", place)):
                file = files.get_file_from_path(found)
                if file is not None and not file.inclusion.is_excluded():
                    return f"{image}[{text}]({relpath(found, join(here, '..') or '.')}{anchor})"
        if not (ROOT / path).exists():
            return link[0]  # mkdocs reports it
        return f"[{text}]({config.repo_url.rstrip('/')}/blob/main/{path})" if config.repo_url else text

    return _outside_code(markdown, lambda text: LINK.sub(rewritten, text))


def on_post_page(output: str, **_: Any) -> str:
    """Give the dialog of the search a name, for screen readers."""
    search = 'data-md-component="search" role="dialog"'
    return output.replace(search, f'{search} aria-label="Search"')


def _outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """The page with all text outside of fenced blocks changed."""
    parts: list[str] = []
    end = 0
    for block in CODE.finditer(markdown):
        parts += [change(markdown[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, change(markdown[end:])])


def on_page_context(context: dict[str, Any], page: Page, **_: Any) -> dict[str, Any]:
    """Leave the link for editing out of pages that are not in docs/."""
    if page.file.generated_by:
        page.edit_url = None
    return context
