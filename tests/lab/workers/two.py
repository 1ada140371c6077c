"""One of several processes that train one run together: `torchrun two.py TASK FOLDER`."""

import sys
from pathlib import Path

import torch.distributed as dist

from adamplus.lab._spec import Spec
from adamplus.lab._store import Run
from adamplus.lab.training import train

dist.init_process_group("gloo")
task, folder = sys.argv[1:]
train(Spec(task, "digest", "adam-plus", "digest", "adam-plus", {"lr": 0.01}, seed=1, epochs=4), Run(Path(folder)))
dist.destroy_process_group()
