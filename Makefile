# Each target works from a bare clone: it creates .venv, installs what it needs once, and runs.
# On a machine without a GPU, install torch's build for CPUs into .venv first: it saves gigabytes of CUDA.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
DEMO_READY := .venv/.ready-demo
OLDEST := .venv-oldest
SOURCES := pyproject.toml constraints.txt hatch_build.py src/adamplus/optim/_execution/native.c
# Python compiles modules when they are first imported; pip would compile all, and the tests use two fifths.
PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-compile
# Empty, so that compiled modules are stored even where the environment says otherwise, as in many container images.
export PYTHONDONTWRITEBYTECODE :=
# One thread a worker: the tests are many small steps, and threads of several workers would only wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: demo test test-all test-oldest lint types public-types format bench figures docs clean

demo: $(DEMO_READY)
	$(BIN)/adamplus compare --tune 5 --seeds 3 --out runs/demo

# Coverage is of the optimizers, by their own tests: it would slow the others down by a third.
test: lint
	$(PYTEST) -n auto --dist worksteal -m "not slow" --cov --cov-report=term tests/optim
	$(PYTEST) -n auto --dist worksteal -m "not slow" --ignore=tests/optim

# Its soak test alone takes an hour (SOAK_SECONDS=3600).
test-all: lint
	$(PYTEST) -n auto --hypothesis-profile=thorough

# The optimizers with the oldest versions that pyproject.toml allows, in a virtual environment of their own. Tests of
# Triton's kernels and of trainers need newer versions, and skip themselves or are left out.
test-oldest: $(OLDEST)/.ready
	OMP_NUM_THREADS=1 $(OLDEST)/bin/python -m pytest -n auto --dist worksteal -m "not slow" -p no:cacheprovider \
	  tests/optim tests/rivals tests/theory --ignore=tests/optim/_execution/fused \
	  --ignore=tests/optim/test_spectral_groups_transformers.py

# Both checks of types run at once: each is one process, and takes up to a minute.
lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --no-print-directory -j2 types public-types

types: $(READY)
	$(BIN)/pyright

public-types: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" pyright --verifytypes adamplus --ignoreexternal

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/adamplus bench step

figures: $(READY)
	$(BIN)/python docs/figures/points.py
	$(BIN)/python docs/tables/norm_cost.py
	$(BIN)/python docs/tables/exchange_cost.py

# The site, in site/: open site/index.html. A broken link, anchor or docstring is an error.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

define CHECK_PYTHON
@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("adamplus needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ": make PYTHON=python3.11 ...")'
endef

# `make demo` needs a tenth of what the tests need. Both share .venv: after `make test`, the demo installs nothing.
$(DEMO_READY): $(SOURCES)
	$(CHECK_PYTHON)
	test -e $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -e '.[lab]' -c constraints.txt
	@touch $(DEMO_READY)

$(READY): $(SOURCES)
	$(CHECK_PYTHON)
	test -e $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -e '.[dev,lab,ray,jax,docs]' -c constraints.txt
	@touch $(DEMO_READY) $(READY)

$(OLDEST)/.ready: $(SOURCES) constraints-oldest.txt
	$(CHECK_PYTHON)
	test -e $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --disable-pip-version-check -e . -r constraints-oldest.txt
	@touch $(OLDEST)/.ready

# What tests and the demo leave. Results of your own commands (runs/, theory/, reproduction/) stay.
clean:
	rm -rf .venv $(OLDEST) .pytest_cache .ruff_cache .hypothesis .coverage .coverage.* build dist site runs/demo
	rm -f src/adamplus/optim/_execution/native.c.so src/adamplus/optim/_execution/native.c.so.new
	find src tests benchmarks docs examples -name __pycache__ -prune -exec rm -rf {} +
	rmdir runs 2>/dev/null || true
