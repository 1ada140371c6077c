# Each target works from a bare clone: it creates .venv, installs once, and runs.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# One thread a worker: the tests are many small steps, and threads of several workers would only wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: demo test test-all lint format bench figures clean

demo: $(READY)
	$(BIN)/adamplus compare --tune 5 --seeds 3 --out runs/demo

# Coverage is of the optimizers, by their own tests: it would slow the others down by a third.
test: lint
	$(PYTEST) -n auto --dist worksteal -m "not slow" --cov --cov-report=term tests/optim
	$(PYTEST) -n auto --dist worksteal -m "not slow" --ignore=tests/optim

# Its soak test alone takes an hour (SOAK_SECONDS=3600).
test-all: lint
	$(PYTEST) -n auto --hypothesis-profile=thorough

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
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

$(READY): pyproject.toml constraints.txt hatch_build.py src/adamplus/optim/_execution/native.c
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("adamplus needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ": make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,lab,ray,jax]' -c constraints.txt
	@touch $(READY)

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis .coverage build dist
