"""The `--device` option, which several commands share."""

from typing import Annotated

import typer

Device = Annotated[
    str | None,
    typer.Option(help="cpu, cuda or cuda:1.", show_default="cuda if there is a GPU, else cpu"),
]
