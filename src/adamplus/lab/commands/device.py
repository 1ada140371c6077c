"""The option that says where to compute."""

from typing import Annotated

import typer

Device = Annotated[str | None, typer.Option(help="cpu, cuda or cuda:1; CUDA, where there is one.", show_default=False)]
