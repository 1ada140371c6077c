"""What comes before the first epoch of a run on a GPU, and what an epoch takes by cuDNN's other ways to choose.

`PYTHONPATH=src python3 benchmarks/lab_start.py [--model vgg19] [--by-timing]`, on a GPU; the second call has
what the first has compiled in torch's cache. `TORCH_CUDNN_USE_HEURISTIC_MODE_B=1` before it is cuDNN's other rule;
`--by-timing` has it choose by timing, which the lab does not, because bits would depend on it. Images are random.
"""

import argparse
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

BEGUN = time.perf_counter()

import torch  # noqa: E402
from torch import nn  # noqa: E402

from adamplus.lab import _learner  # noqa: E402
from adamplus.lab._learner import Learner  # noqa: E402
from adamplus.lab._spec import Spec  # noqa: E402
from adamplus.lab.models import VGG19, ResNet18  # noqa: E402
from adamplus.lab.tasks import Split  # noqa: E402
from adamplus.lab.tasks._images import Cifar  # noqa: E402

EPOCHS = 4
MODELS = {"resnet18": (ResNet18, "cifar10"), "vgg19": (VGG19, "cifar100")}


@contextmanager
def told(what: str) -> Iterator[None]:
    """Print how long it took."""
    torch.cuda.synchronize()
    begun = time.perf_counter()
    yield
    torch.cuda.synchronize()
    print(f"{what}: {time.perf_counter() - begun:.2f} s", flush=True)


def main() -> None:
    """Start a run, train for some epochs, and tell what each took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="resnet18")
    parser.add_argument("--by-timing", action="store_true")
    options = parser.parse_args()
    network, name = MODELS[options.model]

    class Images(Cifar):
        """Random ones."""

        set_name = name
        paper = True

        def data(self) -> dict[str, Split]:
            return splits

        def model(self) -> nn.Module:
            return network(self.classes)

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60_000, 3, 32, 32, generator=generator)
    y = torch.randint(int(name.removeprefix("cifar")), (60_000,), generator=generator)
    splits = {"train": (x[:50_000], y[:50_000]), "test": (x[50_000:], y[50_000:])}
    torch.zeros(1, device="cuda")
    print(f"imports, images and CUDA: {time.perf_counter() - BEGUN:.2f} s")
    spec = Spec(name, "", "adam-plus", "", "adam-plus", {"lr": 0.1}, device="cuda", precision="bfloat16")
    if options.by_timing:
        rules = _learner.repeat_bits

        def by_timing() -> None:
            rules()
            torch.backends.cudnn.benchmark = True

        _learner.repeat_bits = by_timing
    with told("model, optimizer and data"):
        made = Learner(Images(), spec)
    with told("step, compiled and captured"):
        made.prepare()
    with told("first epoch, evaluation compiled and captured"):
        made.epoch(0, [])
    training, everything = [], []
    for epoch in range(1, EPOCHS + 1):
        before, begun = made.seconds, time.perf_counter()
        made.epoch(epoch, [])
        torch.cuda.synchronize()
        training.append(made.seconds - before)
        everything.append(time.perf_counter() - begun)
    print(f"an epoch: {statistics.median(training):.4f} s of training, {statistics.median(everything):.4f} s of all")
    print(torch.cuda.get_device_name(), torch.__version__)


if __name__ == "__main__":
    main()
