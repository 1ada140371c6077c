"""The command line `adamplus`: registers the commands."""

import logging
import sys
from importlib.util import find_spec
from io import TextIOWrapper

try:
    import typer

    from .lab import commands

    if find_spec("matplotlib") is None:  # otherwise it would be missed only after minutes of measuring
        raise ModuleNotFoundError(name="matplotlib")
except ModuleNotFoundError as _missing:
    raise SystemExit(
        f"adamplus: the commands need {_missing.name}, which is not installed: in your clone, run "
        "pip install -e '.[lab]'"
    ) from None

app: typer.Typer = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.callback(epilog=commands.MAIN_EXAMPLES)(commands.main)
app.command(epilog=commands.COMPARE_EXAMPLES)(commands.compare)
app.command(epilog=commands.REPORT_EXAMPLES)(commands.report)
app.command(epilog=commands.REPRODUCE_EXAMPLES)(commands.reproduce)
app.add_typer(commands.data_app, name="data")
app.add_typer(commands.bench_app, name="bench")
app.add_typer(commands.theory_app, name="theory")


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ⁺ shows a question mark
    # The commands evaluate at w where they report a model, and measure steps of optimizers that train nothing.
    logging.getLogger("adamplus").setLevel(logging.ERROR)
    app(prog_name="adamplus")


if __name__ == "__main__":
    main()
