# Every target makes what it needs from python3 and pip alone.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Where tests and benchmarks look for the real data sets; they skip what is not there.
export REMBRANDT_DATA ?= $(abspath ../shared/data)
DEVICE ?= cpu
# Test processes that run in parallel, with one thread each.
WORKERS ?= 2

.PHONY: help demo test check format bench paper annif-env clean

help: ## what the targets do
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# A stamp is newer than pyproject.toml once its dependencies are installed: those of the package, then those of the tests.
$(VENV)/.package: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed: $(VENV)/.package
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(VENV)/.package ## raw articles to a trained, evaluated, saved model
	$(BIN)/rembrandt demo --output demo-model --force

test: $(VENV)/.installed ## everything that proves it works
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

check: $(VENV)/.installed ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed ## rewrite the sources in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed ## the measurements behind each claim; writes bench-results/
	$(BIN)/python -m benchmarks

paper: $(VENV)/.installed ## the paper's experiments; updates the report in docs/reproduction (DEVICE=cuda for a GPU)
	$(BIN)/python -m benchmarks.paper all --output docs/reproduction --device $(DEVICE)

annif-env: $(VENV)/.installed ## an environment with Annif, for its tests and benchmark
	$(BIN)/python -m benchmarks.annif --install

clean: ## remove the environment and every cache
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
