"""SWB-300, the licensed Switchboard speech of the paper, read from Kaldi archives."""

from ..data_set import DataSet, File, Layout

STREAMS = ("fmllr", "ivectors", "logmel", "alignments")
SPLITS = ("train", "heldout")


def _layout(ending: str) -> Layout:
    files = tuple(File(f"{split}/{stream}.{ending}") for split in SPLITS for stream in STREAMS)
    return Layout(ending, ("swb300", "."), files)


SWB300 = DataSet(
    name="swb300",
    title="SWB-300",
    layouts=(_layout("scp"), _layout("ark")),
    licence="licensed by the Linguistic Data Consortium (LDC97S62, Switchboard-1 Release 2)",
    home="https://catalog.ldc.upenn.edu/LDC97S62",
    advice="It is licensed speech (LDC97S62) and cannot be downloaded. With a licence, make features and alignments "
    "with Kaldi and put or link the archives there. train/ and heldout/ each need an .scp (or all of them an .ark) of "
    "fmllr (40 values per frame), ivectors (100 per utterance or frame), logmel (with deltas) and alignments (a state "
    "per frame, as ali-to-pdf writes them). Without a licence, `an4` is speech of the same kind.",
)
