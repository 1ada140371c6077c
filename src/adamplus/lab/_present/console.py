"""The console that commands print to."""

from rich.console import Console
from rich.text import Text


def console() -> Console:
    """A console for standard output: 160 characters wide if output is not a terminal, so that tables fit."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=160)


def say(console: Console, text: str) -> None:
    """Print a text without markup and wrapping: names of files and tasks may contain brackets."""
    console.print(Text(text), soft_wrap=True)
