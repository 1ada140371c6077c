"""A worker process of the local engine: runs come in by standard input, a line each, and replies go out by output."""

import gc
import json
import os
import sys
import threading
import traceback
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from .._store import Spec
from .attempt import attempt


def serve() -> None:
    """Train what is asked for, until nobody can ask any more."""
    requests: SimpleQueue[dict[str, Any]] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    gc.collect()
    gc.freeze()  # what was imported: a look through all of it takes 0.2 s, in the middle of somebody's epoch
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)  # what a task prints is no reply
        while True:
            request = requests.get()
            try:
                reply = attempt(Spec.from_json(request["spec"]), Path(request["root"]))
            except BaseException:  # or Python would abort when it ends, as the listener holds standard input
                traceback.print_exc()
                os._exit(1)
            replies.write(json.dumps(asdict(reply)) + "\n")
            replies.flush()


def _listen(requests: SimpleQueue[dict[str, Any]]) -> None:
    """Pass requests on; where the input ends, the parent is gone, and so is this process, in the middle of a run."""
    for line in sys.stdin.buffer:
        requests.put(json.loads(line))
    os._exit(0)
