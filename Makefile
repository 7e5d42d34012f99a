# Every target needs only python3 and pip.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Folder of the real data sets; tests and benchmarks skip those that are missing.
export REMBRANDT_DATA ?= $(abspath ../shared/data)
DEVICE ?= cpu
# Rooms whose types are checked strictly.
STRICT := $(addprefix src/rembrandt/,recipe.py selection scorers model)
# Test processes that run in parallel, with one thread each.
WORKERS ?= 2

.PHONY: help demo test check format docs package bench paper annif-env clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# A stamp is newer than pyproject.toml once its dependencies are installed: those of the package, then those of the tests.
$(VENV)/.package: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed: $(VENV)/.package
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(VENV)/.package ## fit, evaluate and save a model of raw articles
	$(BIN)/rembrandt demo --output demo-model --force

test: $(VENV)/.installed ## run all tests
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

check: $(VENV)/.installed ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --strict --follow-imports=silent $(STRICT)

format: $(VENV)/.installed ## format the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed ## build the documentation as a site with search, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

package: $(VENV)/.installed ## build wheel and sdist, check them, and try the wheel in a clean environment
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/python -m tests.package dist

bench: $(VENV)/.installed ## run the benchmarks; writes bench-results/
	$(BIN)/python -m benchmarks

paper: $(VENV)/.installed ## the paper's experiments; updates the report in docs/reproduction (DEVICE=cuda for a GPU)
	$(BIN)/python -m benchmarks.paper all --output docs/reproduction --device $(DEVICE)

annif-env: $(VENV)/.installed ## make an environment with Annif, for its tests and benchmark
	$(BIN)/python -m benchmarks.annif --install

clean: ## remove the environment and every cache
	rm -rf $(VENV) dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
