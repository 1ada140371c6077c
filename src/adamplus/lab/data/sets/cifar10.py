"""CIFAR-10: 60,000 images of ten classes."""

from ..data_set import DataSet, File, Layout, Source
from ..readers.cifar_formats import KINDS, records

PICKLES = {  # digests of the official files, and of the same images and labels in the binary layout
    "data_batch_1": ("c99cafc152244af753f735de768cd75f", "5dd7e06a14cb22eb9f671a540d1b7c25"),
    "data_batch_2": ("d4bba439e000b95fd0a9bffe97cbabec", "5ea93a67294ea407fff1d09f752e9692"),
    "data_batch_3": ("54ebc095f3ab1f0389bbae665268c751", "942cd6a4bcdd0dd3c604fbe906cb4421"),
    "data_batch_4": ("634d18415352ddfa80567beed471001a", "ae636b3ba5c66a11e91e8cb52e771fcb"),
    "data_batch_5": ("482c414d41f54cd18b22e5b47cb7c3cb", "53f37980c15c3d472c316c40844f3f0d"),
    "test_batch": ("40351d587109b95175f43aff81a1287e", "803d5f7f4d78ea53de84dbe85f74fb6d"),
}
PYTHON_DIGEST = "sha256:6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"

CIFAR10 = DataSet(
    name="cifar10",
    title="CIFAR-10",
    layouts=(
        Layout(
            "python",
            ("cifar-10-batches-py", "cifar10/cifar-10-batches-py", "cifar10", "."),
            tuple(File(name, f"md5:{file}", f"md5:{content}") for name, (file, content) in PICKLES.items()),
            archive=File("cifar-10-python.tar.gz", PYTHON_DIGEST),
            content=lambda pickled: records(pickled, KINDS["cifar10"]),
        ),
        Layout(
            "binary",
            ("cifar-10-batches-bin", "cifar10/cifar-10-batches-bin", "cifar10", "."),
            tuple(File(f"{name}.bin", f"md5:{content}") for name, (_file, content) in PICKLES.items()),
            archive=File("cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530"),
        ),
    ),
    licence="no licence text is published with it; cite A. Krizhevsky, Learning Multiple Layers of Features, 2009",
    home="https://www.cs.toronto.edu/~kriz/cifar.html",
    ways=(
        (
            Source(
                "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
                "cifar-10-python.tar.gz",
                PYTHON_DIGEST,
                inside="cifar-10-batches-py",
            ),
        ),
    ),
)
