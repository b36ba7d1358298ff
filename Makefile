# Everything starts from a bare machine with Python 3.11 or newer and make; `make` alone lists what there is.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
LOWEST := $(VENV)-lowest
PIP    := pip install --quiet --disable-pip-version-check
# A loop that is left to the collector fails whichever test runs then; `make test` judges such leaks, with current tools.
OLD_TOOLS := -W default::pytest.PytestUnraisableExceptionWarning
PYTEST := python -m pytest -q --numprocesses auto --maxprocesses 4 --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help setup demo pictures test lowest lint format docs constraints soak bench clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -m scripts.environment $(VENV)
	$(BIN)/$(PIP) --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(LOWEST)/.ready: pyproject.toml $(VENV)/.ready
	@$(PYTHON) -m scripts.environment $(LOWEST)
	@$(BIN)/python -m scripts.lowest > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/$(PIP) --constraint $(LOWEST)/constraints.txt --editable '.[dev]'
	@touch $@

setup: $(VENV)/.ready ## make the virtual environment

demo: setup ## a flow that streams, spends and asks, in the dashboard; approve it there, or watch it approve itself
	@$(BIN)/python -m examples.demo

pictures: setup ## take the screenshots of the docs anew, in Chromium
	$(BIN)/python -m scripts.screenshots

test: setup ## run every test, one process more than there are processors; a browser is fetched if none is there
	@$(BIN)/python -m scripts.fetch_browser
	$(BIN)/$(PYTEST)

lowest: $(LOWEST)/.ready ## run the unit and server tests with the lowest versions that pyproject.toml allows
	$(LOWEST)/bin/$(PYTEST) $(OLD_TOOLS) tests/unit tests/server

lint: setup ## ruff, mypy, layers, Lua, sizes, generated pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_sizes.py
	$(BIN)/python scripts/generate_docs.py --check
	$(BIN)/python scripts/generate_http_ports.py --check
	$(BIN)/python -m scripts.check_lua

format: setup ## format Python
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup ## write the generated pages of docs/reference and docs/explanation, and the generated modules
	$(BIN)/python scripts/generate_docs.py
	$(BIN)/python scripts/generate_http_ports.py

constraints: ## write the versions that CI and `make setup` install: the newest that pyproject.toml allows
	$(PYTHON) -m venv --clear $(VENV)-newest
	$(VENV)-newest/bin/$(PIP) --upgrade --editable '.[dev]'
	$(VENV)-newest/bin/pip freeze --exclude-editable > constraints.txt
	rm -rf $(VENV)-newest

soak: setup ## the long runs: many seeds of the model and race tests, crash loops
	FLOWFABRIC_SOAK=1 $(BIN)/$(PYTEST) tests/conformance tests/valkey tests/integration tests/server -k "schemathesis or fuzz or model or race or composite or crash or failover or starvation or capabilities or stream_load or quota or accounting" -x

bench: setup ## run the benchmarks: the price of a job, its growth, throughput and latency beside others, waits, streams, flows, idling
	$(BIN)/python -m benchmarks.lifecycle
	$(BIN)/python -m benchmarks.growth
	$(BIN)/python benchmarks/clients.py
	$(BIN)/python -m benchmarks.submit
	$(BIN)/python -m benchmarks.throughput
	$(BIN)/python -m benchmarks.latency
	$(BIN)/python -m benchmarks.resume
	$(BIN)/python -m benchmarks.streams
	$(BIN)/python -m benchmarks.http
	$(BIN)/python -m benchmarks.flows
	$(BIN)/python -m benchmarks.idle

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) $(LOWEST) .pytest_cache .mypy_cache .ruff_cache .hypothesis
