"""A worker process of the local engine: it reads runs from standard input, one per line, and prints replies."""

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
    """Train the requested runs until standard input closes."""
    requests: SimpleQueue[dict[str, Any]] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    gc.collect()
    gc.freeze()  # imported modules: collecting among them takes 0.2 s, in the middle of an epoch
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)  # what a task prints goes to the log, not among the replies
        while True:
            request = requests.get()
            try:
                reply = attempt(Spec.from_json(request["spec"]), Path(request["root"]))
            except BaseException:  # else Python would abort on exit, because the listener holds standard input
                traceback.print_exc()
                os._exit(1)
            replies.write(json.dumps(asdict(reply)) + "\n")
            replies.flush()


def _listen(requests: SimpleQueue[dict[str, Any]]) -> None:
    """Pass requests on. When the input closes, the parent is gone: end this process, even in the middle of a run."""
    for line in sys.stdin.buffer:
        requests.put(json.loads(line))
    os._exit(0)
