# Every target needs only python3 and pip.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Folder of the real data sets; tests and benchmarks skip those that are missing.
export REMBRANDT_DATA ?= $(abspath ../shared/data)
DEVICE ?= cpu
# Rooms whose types are checked strictly.
STRICT := $(addprefix src/rembrandt/,declarations.py planning.py fitting.py candidates.py blend.py search parts model)
# Test processes that run in parallel, with one thread each.
WORKERS ?= 2

.PHONY: help demo test test-oldest lock check format docs package bench paper annif-env clean

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

# The oldest versions of the direct dependencies, in an environment of their own; the tests are a quick part of all.
OLDEST  := .venv-oldest
EXTRAS  := --extra dask --extra serve --extra report --extra skos
SMOKE   := $(addprefix tests/,linalg/test_sparse.py linalg/test_ridge.py features data/test_round_trip.py \
	data/test_store.py storage/test_arrays.py model/test_saving.py estimators/test_classifier.py \
	cli/test_names_and_tables.py serve/test_predict.py serve/test_errors.py engines/test_dask.py)
COMPILE := uv pip compile --quiet --python-version 3.11 --no-header --no-annotate pyproject.toml

$(OLDEST)/.installed: pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(OLDEST)/bin/$(COMPILE) --resolution lowest-direct --upgrade $(EXTRAS) --output-file $(OLDEST)/oldest.txt
	$(OLDEST)/bin/uv pip install --quiet --python $(OLDEST)/bin/python --requirement $(OLDEST)/oldest.txt \
		pytest hypothesis httpx safetensors pandas
	$(OLDEST)/bin/uv pip install --quiet --python $(OLDEST)/bin/python --no-deps --editable .
	@touch $@

test-oldest: $(OLDEST)/.installed ## run a part of the tests with the oldest versions that pyproject.toml allows
	$(OLDEST)/bin/python -m pytest -q $(SMOKE)

lock: $(OLDEST)/.installed ## write requirements/dev.txt, the development environment with hashes
	$(OLDEST)/bin/$(COMPILE) --universal --extra dev --generate-hashes --output-file requirements/dev.txt --upgrade

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
	rm -rf $(VENV) $(OLDEST) dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
