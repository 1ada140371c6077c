"""100 English Novels: prose of 1839 to 1937, 78 million bytes."""

from ..data_set import DataSet, Layout, Source, Tree

# The last commit without files beside the novels. They are the same, byte for byte, at 143e6018, the newest one.
COMMIT = "fbaa4dbc560504a4310f6aa8de6e958670064973"

NOVELS = DataSet(
    name="novels",
    title="100 English Novels",
    layouts=(
        Layout(
            "txt",
            (
                "100_english_novels/corpus",
                "100_english_novels-master/corpus",
                f"100_english_novels-{COMMIT}/corpus",
                "100_english_novels",
                "novels",
            ),
            (Tree("*_*_*.txt", 100, "sha256:3db873b3cf43be1df392f50c6c16f6ac8c7aaf790ad25bbfb7b71ea2508411f8"),),
        ),
    ),
    licence="novels in the public domain; cite the Computational Stylistics Group, 100 English Novels, version 1.4",
    home="https://github.com/computationalstylistics/100_english_novels",
    ways=(
        (
            Source(  # digests of archives that GitHub packs may change: its files have one, and it has a limit
                f"https://github.com/computationalstylistics/100_english_novels/archive/{COMMIT}.tar.gz",
                "100_english_novels.tar.gz",
                inside=f"100_english_novels-{COMMIT}/corpus",
                limit=1 << 27,  # the files have 78 million bytes
            ),
        ),
    ),
)
