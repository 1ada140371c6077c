"""The public names and signatures of DESIGN §2, and what importing the package needs."""

import inspect
import subprocess
import sys

import adamplus
from adamplus import NIGT, AdamPlus, NAdamPlus

SIGNATURE = {
    "lr": 1.0,
    "beta": 0.1,
    "beta_power": 1.0,
    "norm_power": 0.5,
    "eps": 1e-8,
    "lookahead": None,
    "weight_decay": 0.0,
    "decoupled_weight_decay": False,
    "maximize": False,
    "foreach": None,
    "fused": None,
    "capturable": False,
    "differentiable": False,
    "norm_scope": "global",
    "process_group": None,
    "state_dtype": None,
    "stochastic_rounding": False,
    "skip_nonfinite": False,
}


def test_the_signature_of_adam_plus():
    parameters = list(inspect.signature(AdamPlus).parameters.values())
    assert parameters[0].name == "params"
    assert {p.name: p.default for p in parameters[1:]} == SIGNATURE
    assert {p.name for p in parameters if p.kind is p.KEYWORD_ONLY} == set(SIGNATURE) - {"lr", "beta"}


def test_the_powers_and_momentum_of_the_family():
    import torch

    def group(cls: type[AdamPlus]) -> dict:
        return cls([torch.nn.Parameter(torch.ones(1))]).param_groups[0]

    assert (group(NAdamPlus)["beta_power"], group(NAdamPlus)["norm_power"]) == (4 / 3, 2 / 3)
    assert (group(NIGT)["beta_power"], group(NIGT)["norm_power"], group(NIGT)["beta"]) == (0.0, 1.0, 1 - 0.9)


def test_all_public_names_exist_and_are_sorted():
    assert all(hasattr(adamplus, name) for name in adamplus.__all__)
    assert adamplus.__all__ == sorted(adamplus.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name))
    assert adamplus.__version__.count(".") == 2


def test_importing_the_package_needs_only_torch():
    """Neither the lab's dependencies nor a compiler are imported, so that a machine with only torch can use it."""
    code = (
        "import sys, torch; before = set(sys.modules); import adamplus; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - {'adamplus', 'torch'} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
