"""WikiText-2, word level: two million words of Wikipedia's good articles."""

from ..data_set import DataSet, File, Layout, Source

DIGESTS = {
    "train": "sha256:9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
    "valid": "sha256:f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
    "test": "sha256:d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
}
# an identical copy at a fixed commit
EXAMPLES = (
    "https://raw.githubusercontent.com/pytorch/examples/77f55b912142e11fcfdf5b530231fb9c52f181e8/"
    "word_language_model/data/wikitext-2"
)

WIKITEXT2 = DataSet(
    name="wikitext2",
    title="WikiText-2",
    layouts=(
        Layout(
            "tokens",
            ("wikitext-2", "wikitext2", "wikitext-2-v1", "."),
            tuple(File(f"wiki.{split}.tokens", digest) for split, digest in DIGESTS.items()),
        ),
    ),
    licence="text of Wikipedia, CC BY-SA 3.0 and GFDL; cite Merity et al., Pointer Sentinel Mixture Models, 2016",
    home="https://arxiv.org/abs/1609.07843",
    ways=(
        (
            Source(
                "https://wikitext.smerity.com/wikitext-2-v1.zip",
                "wikitext-2-v1.zip",
                "md5:542ccefacc6c27f945fb54453812b3cd",
                inside="wikitext-2",
            ),
        ),
        tuple(Source(f"{EXAMPLES}/{split}.txt", f"wiki.{split}.tokens", digest) for split, digest in DIGESTS.items()),
    ),
    advice="Its first address (research.metamind.io) has been offline since 2024. The download tries its author's "
    "address, then the copy in github.com/pytorch/examples.",
)
