# The commands of this project; `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2
TRIALS ?= 3072
SEED ?= 0

.DEFAULT_GOAL := help
.PHONY: help setup rehearse test interruption-sweep crash-sweep bench lint requirements clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-19s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install everything into .venv and the cache (6 minutes on a fresh machine of 2 cores, then a second); TORCH=cpu for the small torch
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; this is `$(PYTHON) --version`. Try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m localcloud.toolchain.setup

rehearse: setup ## deploy into the local cloud, run, preempt, kill, resume, prove, destroy (about a minute)
	@$(BIN)/gpujob rehearse

test: setup lint ## every tier of tests
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

crash-sweep: setup ## kill saves at TRIALS named points and random instants (3072), resume, compare (about half an hour)
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.crash.sweep --trials $(TRIALS) --seed $(SEED) --jobs $(WORKERS)

interruption-sweep: setup ## `pulumi up` stopped and killed at each of its changes in turn (half an hour on a quiet machine of 2 cores)
	@GPUJOB_SWEEP=all $(BIN)/python -m pytest -v tests/local/stack/test_interrupted_up.py

bench: setup ## measure the checkpoint engine against its peers (about a quarter of an hour); writes build/bench.json
	@$(PYTHON) -m localcloud.toolchain.setup --bench
	@build/bench-venv/bin/python -m bench

lint: setup ## style and types
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/basedpyright --level error
	@$(BIN)/basedpyright --level error -p policies

requirements: ## pin requirements/*.in again, with hashes
	@$(PYTHON) -m localcloud.toolchain.setup --compile

clean: ## remove what was built in this tree (the cache in ~/.cache/gpujob stays)
	@rm -rf .venv policies/.venv build *.egg-info .pytest_cache .ruff_cache .hypothesis
