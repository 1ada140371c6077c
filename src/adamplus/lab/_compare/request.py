"""The request: everything that the caller of a comparison decides, from the command line to the rerun command."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from ..engines import torchrun
from ..errors import InputError, nearest
from ..optimizers import LogUniform
from .options import check_least, command_options, option
from .search import Kind

Precision = Literal["float32", "bfloat16"]
MOST_RUNS = 100_000
"""The most runs of a comparison: each has a folder, and all specifications are in memory."""


@dataclass(frozen=True)
class Request:
    """Arguments of `adamplus.lab.compare`, in the order in which the rerun command has them as options."""

    tasks: Sequence[str] = field(metadata={"text": "names of tasks, or files that end in .py."})
    optimizers: Sequence[str] = field(
        metadata={
            "text": "names or files, each with the settings to fix or ranges to search, if any: "
            "`adam-plus:lr=0.1..10;beta=0.5`."
        }
    )
    _: KW_ONLY
    seeds: int = option(3, "final runs of each optimizer on each task, with the seeds 1, 2, …", least=1, always=True)
    tune: int = option(
        5,
        "settings to try per optimizer, judged on validation data. 0: no search, the middle of each range.",
        least=0,
        always=True,
    )
    epochs: int | None = option(None, "epochs per run. Default: the task's.", least=1)
    search: str = option(
        "random",
        "`random` (an even grid with a random shift that all optimizers share; with several settings, a Latin "
        "square) or `grid` (without the shift). Both are on a logarithmic scale.",
    )
    device: str | None = option(None, "`cpu`, `cuda` or `cuda:1`. Default: CUDA if there is a GPU, else the CPU.")
    precision: str | None = option(None, "`float32`, or `bfloat16` for autocast. Default: `bfloat16` on CUDA.")
    first_batch: int = option(0, "rows of an extra first step, the paper's T₀. 0: none.", least=0)
    engine: str = option(
        "local", "`local` for processes of this machine, `ray` for a cluster. Under torchrun, all its processes."
    )
    workers: int | None = option(None, "runs at a time. Default: one per core on the CPU, one on CUDA.", least=1)
    out: Path = option(Path("runs"), "folder of the runs and the report.", always=True)  # noqa: RUF009 - it is a field
    probe: bool = option(False, "measure the errors of z and g after each epoch, in runs of the Adam⁺ family.")
    ranges: Mapping[str, Mapping[str, LogUniform]] | None = option(
        None, "by optimizer, settings to search beside the learning rate, or in other ranges than the contender's."
    )
    rerun: str | None = option(None, "command that repeats the comparison, if it is not an `adamplus compare`.")

    def check(self, processes: int = 1) -> None:
        """Raise InputError unless the values can be used; `processes` train each run together."""
        check_least(self)
        runs = len(self.tasks) * len(self.optimizers) * (self.seeds + self.tune)
        if runs > MOST_RUNS:
            raise InputError(
                f"a comparison can have {MOST_RUNS:,} runs at most, got {runs:,} "
                f"(tasks × optimizers × (--seeds {self.seeds} + --tune {self.tune})): reduce --seeds or --tune"
            )
        if self.search not in get_args(Kind):
            raise InputError(f"unknown search {self.search!r}: {nearest(self.search, get_args(Kind))}")
        if self.precision is not None and self.precision not in get_args(Precision):
            raise InputError(f"unknown precision {self.precision!r}: {nearest(self.precision, get_args(Precision))}")
        if self.device not in (None, "cpu", "cuda"):
            given = f"--device must be cpu or cuda, got {self.device}"
            if self.engine == "ray":
                raise InputError(f"{given}: with --engine ray, Ray chooses the GPU of each run")
            if processes > 1:
                raise InputError(f"{given}: under torchrun, each process has its own GPU")

    def command(self) -> str:
        """The command line that repeats the comparison."""
        start = torchrun.command_prefix() if self.engine == "torchrun" else ["adamplus"]
        without = {"tasks", "workers", "ranges", "rerun", *(["engine"] if self.engine == "torchrun" else [])}
        # Engines other than the local one choose the number of the device for each run.
        device = self.device if self.engine == "local" or self.device is None else self.device.partition(":")[0]
        return shlex.join([*start, "compare", *self.tasks, *command_options(replace(self, device=device), without)])
