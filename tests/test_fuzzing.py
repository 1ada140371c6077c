"""Random input is accepted, or refused with an error for users."""

import pytest
from fuzzing import TARGETS, fuzz

INPUTS = {"labels": 2000, "tasks": 300, "runs": 40, "state": 300, "spectral": 400}
INPUTS |= {"kaldi": 200, "wikitext": 100, "an4": 100, "fsdd": 500, "cifar": 100, "pickles": 2000, "archives": 100}


@pytest.mark.parametrize("name", TARGETS)
def test_random_input_is_accepted_or_refused(name: str):
    did, failures = fuzz(name, INPUTS[name], seconds=60)
    assert failures == {}
    assert did["accepted"]
    assert did["refused"] or name == "runs"  # whose damaged ones are listed in the report


def test_a_failure_is_reported_with_its_seed(monkeypatch: pytest.MonkeyPatch):
    def breaks_at_random() -> object:
        return lambda chance: chance.random() < 0.5 or [][1]

    monkeypatch.setitem(TARGETS, "broken", breaks_at_random)  # pyright: ignore[reportArgumentType]
    did, failures = fuzz("broken", 20, seconds=60)
    assert did["accepted"]
    assert [what.partition(":")[0] for where, what in failures.items() if where.startswith("IndexError")] != []
