"""What the callbacks log of an optimizer."""

from adamplus import AdamPlus, SpectralPlus

OPTIMIZERS: tuple[type[AdamPlus], type[SpectralPlus]] = (AdamPlus, SpectralPlus)
"""The optimizers that the callbacks switch and log. `NAdamPlus` and `NIGT` are subclasses of `AdamPlus`."""


def statistics(optimizer: AdamPlus | SpectralPlus, prefix: str = "optimizer/") -> dict[str, float]:
    """‖z‖, η and Σ‖z‖ of the first group, and the number of skipped steps if steps may be skipped.

    SpectralPlus has no Σ‖z‖.
    """
    stats = optimizer.stats()
    values = {"norm": stats.norm, "eta": stats.eta}
    if not isinstance(optimizer, SpectralPlus):
        values["norm_sum"] = stats.norm_sum
    if optimizer.defaults.get("skip_nonfinite"):
        values["skipped"] = stats.skipped
    return {f"{prefix}{name}": value for name, value in values.items()}
