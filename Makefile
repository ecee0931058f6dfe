# The commands of the README, `make demo`, `make quick` and `make test`, do all the set-up: they need Python 3.11+, pip
# and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Nothing is installed whose hash is not in a lock: a source archive (PySpark is one) is built with our own setuptools.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation
LOCKED := $(INSTALL) --require-hashes --requirement
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-annotate --custom-compile-command "make locks"

.PHONY: demo quick test nightly-world lint fmt clean locks image
.DELETE_ON_ERROR:

$(VENV)/run.stamp: requirements-build.lock requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("kafka-chaos needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing what a run needs into $(VENV) (once; PySpark is the large part) ..."
	@$(LOCKED) requirements-build.lock
	@$(LOCKED) requirements.lock
	@$(INSTALL) --no-deps --editable .
	@touch $@

$(VENV)/test.stamp: $(VENV)/run.stamp requirements-test.lock
	@$(LOCKED) requirements-test.lock
	@touch $@

demo: $(VENV)/run.stamp
	@$(BIN)/kafka-chaos run unclean-election

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

export PYTEST_ADDOPTS
# Many containers set it; then each of the hundreds of processes that the tests start would compile its sources anew.
unexport PYTHONDONTWRITEBYTECODE

# Many tests wait, so there are more workers than cores: tests/workers.py says how they share. Kinds: tests/kinds.py.
# FURTHER=yes: also what keeps a promise with one more release, layout, library or world; .ci/run asks for it.
WORKERS ?= 3
FURTHER ?=
SHARED_OUT := --dist loadgroup --no-loadscope-reorder
NOT_QUICK := cluster or jvm or docker or browser or slow

quick: $(VENV)/test.stamp
	$(BIN)/python -m pytest --numprocesses 2 $(SHARED_OUT) -m "not ($(NOT_QUICK))"

test: lint
	$(BIN)/python -m pytest --numprocesses $(WORKERS) $(SHARED_OUT) $(if $(filter yes,$(FURTHER)),,-m "not further")

# The checks against the world that knows the truth (tests/world). SEED: the first one, by default a new one every day.
SEED ?=
HISTORIES ?= 10000
JOBS ?= 1
WORLDS ?=

nightly-world: $(VENV)/test.stamp
	@$(BIN)/python -m tests.world.nightly $(if $(SEED),--seed $(SEED)) --histories $(HISTORIES) --jobs $(JOBS) \
		$(if $(WORLDS),--worlds $(WORLDS))

fmt: $(VENV)/test.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What is pinned stays pinned, unless told otherwise: make locks UPGRADE="--upgrade-package NAME". The tests' lock follows
# the run's, so that one environment holds both.
locks: $(VENV)/test.stamp
	$(LOCK) $(UPGRADE) --group build --output-file requirements-build.lock
	$(LOCK) $(UPGRADE) pyproject.toml --output-file requirements.lock
	$(LOCK) $(UPGRADE) --group test --constraint requirements.lock --output-file requirements-test.lock

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The harness as an image (Dockerfile). BASE: what it is built on; it needs Python of this version, and nothing else.
IMAGE := kafka-chaos:local
BASE ?= python:3.11-slim-bookworm
WHEELS := build/wheels

image: $(VENV)/run.stamp
	rm -rf $(WHEELS)
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --require-hashes \
		--requirement requirements.lock --wheel-dir $(WHEELS)
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir $(WHEELS) .
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --dest $(WHEELS) pip
	docker build --build-arg BASE_IMAGE=$(BASE) --file Dockerfile --tag $(IMAGE) $(WHEELS)
