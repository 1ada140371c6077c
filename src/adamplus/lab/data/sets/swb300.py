"""SWB-300, the Switchboard speech of the paper: licensed, read from the Kaldi archives that its owners have."""

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
    advice="It is licensed speech (LDC97S62) and cannot be downloaded. Who has it makes its features and alignments "
    "with Kaldi and puts, or links, the archives there: in each of train/ and heldout/ an .scp (or all of them an "
    ".ark) of fmllr (40 values a frame), ivectors (100 an utterance, or a frame), logmel (with deltas) and "
    "alignments (a state a frame, as ali-to-pdf writes them). Without a licence, `an4` is speech of the same kind.",
)
