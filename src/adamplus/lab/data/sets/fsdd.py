"""FSDD, the Free Spoken Digit Dataset: 3,000 recordings of ten digits by six speakers."""

from ..data_set import DataSet, Layout, Source, Tree

COMMIT = "26eb9aaf76e81b692f806f9140c2d2777410d7a1"

FSDD = DataSet(
    name="fsdd",
    title="FSDD",
    layouts=(
        Layout(
            "wav",
            (
                "fsdd",
                "fsdd/recordings",
                "speech/fsdd",
                "free-spoken-digit-dataset/recordings",
                "free-spoken-digit-dataset-master/recordings",
                "recordings",
                ".",
            ),
            (Tree("[0-9]_*_*.wav", 3000, "sha256:aacc6435ec019f03383d4aa575de70fa6775a5c68b50d87c766d1c14bb2b79ac"),),
        ),
    ),
    licence="CC BY-SA 4.0",
    home="https://github.com/Jakobovski/free-spoken-digit-dataset",
    ways=(
        (
            Source(  # digests of archives that GitHub packs may change: its files have one, and it has a limit
                f"https://github.com/Jakobovski/free-spoken-digit-dataset/archive/{COMMIT}.tar.gz",
                "fsdd.tar.gz",
                inside=f"free-spoken-digit-dataset-{COMMIT}/recordings",
                limit=1 << 27,  # the files have 21 million bytes
            ),
        ),
    ),
)
