"""`adamplus reproduce` as tests call it."""

import re

from typer.testing import CliRunner

from adamplus.cli import app


def run_command(*arguments: object, status: int = 0) -> str:
    """The output of the command, on one line."""
    words = ["reproduce", *map(str, arguments), "--device", "cpu"]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "400", "TERM": "dumb"})
    assert result.exit_code == status, result.output
    return " ".join(result.output.split())


def trained(output: str) -> list[int]:
    """The number of runs that each comparison has trained."""
    return [int(number) for number in re.findall(r"(\d+) to train", output)]
