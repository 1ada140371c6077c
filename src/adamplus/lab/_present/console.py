"""The console that commands print to."""

import shlex
import shutil
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

from .numbers import duration


def console() -> Console:
    """A console for standard output: 160 characters wide if output is not a terminal, so that tables fit."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=160)


def say(console: Console, text: str) -> None:
    """Print a text without markup and wrapping: names of files and tasks may contain brackets."""
    console.print(Text(text), soft_wrap=True)


class ProgressLines:
    """Lines of progress on standard error, one a minute at most, if it is no terminal, on which bars are shown."""

    EVERY = 60.0
    """The least seconds between two lines."""

    def __init__(self) -> None:
        self.began = self.printed = time.monotonic()
        self.console = Console(highlight=False, stderr=True)

    def say(self, text: str) -> None:
        """Print the text and the time since the beginning, if the last line was long ago."""
        now = time.monotonic()
        if not self.console.is_terminal and now - self.printed >= self.EVERY:
            self.printed = now
            say(self.console, f"{text}, after {duration(now - self.began, rough=True)}")


def as_typed(command: str) -> str:
    """An `adamplus` command as it runs here: with the path of the program if a shell does not find it."""
    own = Path(sys.executable).parent / "adamplus"  # of the same environment
    found = shutil.which("adamplus")
    if not command.startswith("adamplus ") or (found is not None and Path(found).absolute() == own.absolute()):
        return command
    here = Path.cwd()
    path = own.relative_to(here) if own.is_relative_to(here) else own
    program = shlex.quote(str(path)) if own.exists() else f"{shlex.quote(sys.executable)} -m adamplus.cli"
    return program + command.removeprefix("adamplus")
