"""Tests of the public names of theory and rivals: documented with examples, and dependent on torch alone."""

import subprocess
import sys

import pytest

from adamplus import rivals, theory
from adamplus.theory import problems

NAMES = [(module, name) for module in (theory, problems, rivals) for name in module.__all__ if name != "problems"]


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda value: value if isinstance(value, str) else "")
def test_every_public_name_has_a_summary_and_an_example(module: object, name: str):
    documentation = getattr(module, name).__doc__
    assert len(documentation.splitlines()[0]) <= 140
    assert ">>>" in documentation


def test_importing_needs_torch_alone_and_no_module_of_the_lab():
    code = (
        "import sys, torch; before = set(sys.modules); import adamplus.theory, adamplus.rivals; "
        "new = set(sys.modules) - before; tops = {name.partition('.')[0] for name in new}; "
        "print(sorted(tops - {'adamplus', 'torch'} - set(sys.stdlib_module_names)), "
        "[name for name in new if name.startswith('adamplus.lab')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] []"
