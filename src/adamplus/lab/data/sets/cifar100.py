"""CIFAR-100: 60,000 images of a hundred classes."""

from ..data_set import DataSet, File, Layout, Source

PYTHON_DIGEST = "sha256:85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7"

CIFAR100 = DataSet(
    name="cifar100",
    title="CIFAR-100",
    layouts=(
        Layout(
            "python",
            ("cifar-100-python", "cifar100/cifar-100-python", "cifar100", "."),
            (
                File("train", "md5:16019d7e3df5f24257cddd939b257f8d"),
                File("test", "md5:f0ef6b0ae62326f3e7ffdfab6717acfc"),
            ),
            archive=File("cifar-100-python.tar.gz", PYTHON_DIGEST),
        ),
        Layout(
            "binary",
            ("cifar-100-binary", "cifar100/cifar-100-binary", "cifar100", "."),
            (
                File("train.bin", "md5:6172c7755cfe09b2fe270c85cebc1b15"),
                File("test.bin", "md5:4499cfba6c016c1be1438163640a0898"),
            ),
            archive=File("cifar-100-binary.tar.gz", "md5:03b5dce01913d631647c71ecec9e9cb8"),
        ),
    ),
    licence="no licence text is published with it; cite A. Krizhevsky, Learning Multiple Layers of Features, 2009",
    home="https://www.cs.toronto.edu/~kriz/cifar.html",
    ways=(
        (
            Source(
                "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
                "cifar-100-python.tar.gz",
                PYTHON_DIGEST,
                inside="cifar-100-python",
            ),
        ),
    ),
)
