"""AN4, spelled and spoken words recorded at Carnegie Mellon in 1991, as 13 mel cepstra a frame."""

from ..data_set import DataSet, File, Layout, Source, Tree

COMMIT = "5e478f0ee6c5b060edf702acdd563948cad5545f"

AN4 = DataSet(
    name="an4",
    title="AN4",
    layouts=(
        Layout(
            "mfc",
            ("an4", "speech/an4", "."),
            (
                File("etc/an4.dic", "sha256:fc9bdde3129339f4cb7c0f8938e2dc569b640155cad994c8aab032b25fcccd5d"),
                File("etc/an4.phone", "sha256:30955489c2cc1c954a611fb2edae424ab9e968647bd744b9ab6535e7c7065db1"),
                File(
                    "etc/an4_train.fileids", "sha256:a8a4c7f10776bb7d6804b9f1acd0bb6eedd9978490b514c185cebc216a0efed6"
                ),
                File(
                    "etc/an4_train.transcription",
                    "sha256:6eb103966af7ed10c8d44651bc51a0b2ddd052bf430d60efcf3a7e7b9d9f4651",
                ),
                File("etc/an4_test.fileids", "sha256:6860eb5ead0e3219b8aa6510fd1a0f1c0717c560bb18928329728ab2614261ce"),
                File(
                    "etc/an4_test.transcription",
                    "sha256:a36c14d7473eeba948ea64aa95be1e4fa42321ae6d535ea91e2381cb16faacfd",
                ),
                Tree("feat/**/*.mfc", 1078, "sha256:d75200dfcbc85ea4788b58291ec299cd4966ce7441ad190b570b4a32e3809225"),
            ),
        ),
    ),
    licence="BSD-like, Copyright (c) 1991-2005 Carnegie Mellon University; its LICENSE stays with the data",
    home="http://www.speech.cs.cmu.edu/databases/an4/",
    ways=(
        (
            Source(  # digests of archives that GitHub packs may change: its files have them, and it has a limit
                f"https://github.com/cphazen/Machine-Learning-Project-ASR/archive/{COMMIT}.tar.gz",
                "an4.tar.gz",
                inside=f"Machine-Learning-Project-ASR-{COMMIT}/an4",
                limit=1 << 27,  # the files have 21 million bytes
            ),
        ),
    ),
    advice="The download has Carnegie Mellon's cepstra, from a copy on GitHub, and checks them. "
    "Recordings and cepstra are also at http://www.speech.cs.cmu.edu/databases/an4/.",
)
