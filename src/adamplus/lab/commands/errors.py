"""Bad input and bad luck on the command line, said plainly."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ..errors import InputError


@contextmanager
def reported_errors(kept: bool = True) -> Iterator[None]:
    """Tell of bad input as of any other mistake on the command line, without a traceback.

    `kept`: whether what was done so far is kept, and the same command goes on.
    """
    try:
        yield
    except InputError as error:
        raise typer.BadParameter(str(error)) from None
    except BrokenPipeError:  # whoever read what is printed has seen enough
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what, remedy = ("the disk is full", "make room") if full else ("a file cannot be used", "mend that")
        remedy = f"Nothing is lost: {remedy}" if kept else remedy.capitalize()
        typer.echo(f"adamplus: {what} ({error}). {remedy}, and give the same command again.", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
