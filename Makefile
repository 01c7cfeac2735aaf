# make demo: the report on a real model.  make test: all tests.  make check: lint, types, schemas.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
BIN := .venv/bin
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export PYTHONWARNINGS ?= ignore
export TOKENIZERS_PARALLELISM := false

.PHONY: demo smoke test check bench setup clean format docs

demo: setup
	@snakemake --profile local
	@sameweights verdict results

smoke: setup
	@snakemake --profile local --configfile config/smoke.yaml
	@sameweights verdict results/smoke

test: setup
	@$(BIN)/python -m pytest

check: setup
	@$(BIN)/ruff check workflow tests benchmarks
	@$(BIN)/ruff format --check workflow tests benchmarks
	@$(BIN)/snakefmt --check Snakefile workflow/rules
	@$(BIN)/snakemake --lint
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/unit/test_generated.py

format: setup
	@$(BIN)/ruff format workflow tests benchmarks
	@$(BIN)/ruff check --fix workflow tests benchmarks
	@$(BIN)/snakefmt Snakefile workflow/rules

docs: setup
	@sameweights schema workflow/schemas/config.schema.json
	@$(BIN)/python -m runner.catalogue > docs/backends.md

setup: .venv/ready

# The marker carries the lock: another lock file installs again. torch comes first and pinned, so
# that no other package pulls in a CUDA build.
.venv/ready: envs/hub.lock pyproject.toml
	@echo "Setting up .venv (locked versions, a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $$(grep '^torch==' envs/hub.lock)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r envs/hub.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

clean:
	rm -rf results/* .snakemake
