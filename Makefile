# The two commands of the README, `make demo` and `make test`, do all the set-up: they need Python 3.11+, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint fmt clean
.DELETE_ON_ERROR:

$(VENV)/run.stamp: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("kafka-chaos needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing what a run needs into $(VENV) (once; PySpark is the large part) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/test.stamp: $(VENV)/run.stamp requirements-test.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-test.lock
	@touch $@

demo: $(VENV)/run.stamp
	@$(BIN)/kafka-chaos run unclean-election

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

export PYTEST_ADDOPTS

test: lint
	$(BIN)/python -m pytest

fmt: $(VENV)/test.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
