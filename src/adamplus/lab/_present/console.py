"""The console that commands print to."""

from rich.console import Console
from rich.text import Text


def console() -> Console:
    """Where everything is said; wide enough for tables where nobody's window says how wide it is."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=160)


def say(console: Console, text: str) -> None:
    """Print a line as it is: names of files and tasks may look like markup."""
    console.print(Text(text), soft_wrap=True)
