"""Errors on the command line: bad input, a full disk and Ctrl-C end with a message and an exit code."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ..errors import InputError


@contextmanager
def reported_errors(resumes: bool = True) -> Iterator[None]:
    """Report bad input and unusable files in one line, without a traceback.

    Args:
        resumes: whether the same command continues from what was stored before the error.
    """
    try:
        yield
    except InputError as error:
        raise typer.BadParameter(str(error)) from None
    except BrokenPipeError:  # the reader of the output has closed it, as `| head` does
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what, remedy = ("the disk is full", "make room") if full else ("a file cannot be read or written", "fix that")
        remedy = f"Finished work is stored: {remedy}" if resumes else remedy.capitalize()
        typer.echo(f"adamplus: {what} ({error}). {remedy}, and give the same command again.", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
