"""The probe: it measures the errors of z and g and changes nothing."""

import math

from blob_runs import learner, spec, without_times
from blobs import Blobs
from torch import Tensor, nn

from adamplus.lab._run.learner import Learner


def test_a_probe_measures_errors_and_changes_no_bit():
    plain, probed = learner(), learner(probe=True)
    for number in range(2):
        expected, found = plain.epoch(number, []), probed.epoch(number, [])
        errors = {name: found.pop(name) for name in ("z_error", "g_error", "gradient")}
        assert without_times([found]) == without_times([expected])
        assert all(math.isfinite(value) and value > 0 for value in errors.values())
    assert not {"z_error", "g_error"} & learner("adam", probe=True).epoch(0, []).keys()


def test_the_error_of_g_vanishes_if_the_batch_is_all_data():
    class Whole(Blobs):  # one batch is all data, and nothing is random: g is ∇F
        batch = 200

        def model(self) -> nn.Module:
            return nn.Sequential(nn.Flatten(), nn.Linear(16, 2))

        def augment(self, x: Tensor) -> Tensor:
            return x

    made = Learner(Whole(), spec(probe=True))
    made.prepare()
    line = made.epoch(0, [])
    assert line["g_error"] < 1e-6 * line["gradient"]
