# A bare machine needs only Python 3.11 or newer and make. `make` alone lists the targets.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
LOWEST := $(VENV)-lowest
PIP    := pip install --quiet --disable-pip-version-check
# Old test tools leak event loops, which fails an unrelated test; `make test` checks for leaks with current tools.
OLD_TOOLS := -W default::pytest.PytestUnraisableExceptionWarning
# Compiled modules are kept, whatever the shell says: hundreds of tests start a process, and each would compile again.
unexport PYTHONDONTWRITEBYTECODE
# All that runs in part elsewhere, or longer in a soak.
SOAKED := tests/conformance tests/valkey/calls tests/valkey/equality tests/valkey/faults tests/valkey/upkeep \
	tests/valkey/wire/test_composite_wire.py tests/integration/client/test_output_model.py tests/integration/cluster \
	tests/integration/crash tests/integration/examples tests/integration/test_many_suspended.py \
	tests/integration/test_stream_load.py tests/integration/worker tests/server/test_fuzz.py \
	tests/server/test_schemathesis.py tests/unit/backends/test_gathering.py
PYTEST := python -m pytest -q --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup demo pictures unit t test lowest lint format docs constraints soak bench clean

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

setup: $(VENV)/.ready ## create the virtual environment

demo: setup ## run a demo flow in the dashboard: it streams, spends and asks for an approval
	@$(BIN)/python -m examples.demo

pictures: setup ## take the screenshots of the docs again, in Chromium
	$(BIN)/python -m scripts.screenshots

unit: setup ## run the unit tests: no server, under 20 seconds
	$(BIN)/python -m pytest -q tests/unit

t: setup ## run a selection of tests: make t T=tests/unit/core/test_ids.py, make t T="tests/server -k tenant"
	@test -n "$(T)" || { echo 'which tests? make t T=tests/unit/core/test_ids.py'; exit 2; }
	$(BIN)/python -m pytest $(T)

test: setup ## run every test in parallel; fetch a browser if there is none
	@$(BIN)/python -m scripts.fetch_browser
	$(BIN)/$(PYTEST)

lowest: $(LOWEST)/.ready ## run the tests of the package with the lowest versions that pyproject.toml allows
	$(LOWEST)/bin/$(PYTEST) $(OLD_TOOLS) tests/unit tests/tools tests/docs tests/server

lint: setup ## ruff, mypy, layers, sizes, copies, words, generated pages, Lua
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_sizes.py
	$(BIN)/python -m scripts.check_copies
	$(BIN)/python -m scripts.check_words
	$(BIN)/python scripts/generate_docs.py --check
	$(BIN)/python scripts/generate_http_ports.py --check
	$(BIN)/python -m scripts.check_lua

format: setup ## format Python
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup ## write the generated pages of docs/reference and docs/explanation, and the generated modules
	$(BIN)/python scripts/generate_docs.py
	$(BIN)/python scripts/generate_http_ports.py

constraints: ## write constraints.txt: the newest versions that pyproject.toml allows
	$(PYTHON) -m venv --clear $(VENV)-newest
	$(VENV)-newest/bin/$(PIP) --upgrade --editable '.[dev]'
	$(VENV)-newest/bin/pip freeze --exclude-editable > constraints.txt
	rm -rf $(VENV)-newest

soak: setup ## run the long tests: every store, many seeds of the random tests, crash loops; about an hour
	FLOWFABRIC_SOAK=1 $(BIN)/$(PYTEST) -x $(SOAKED)

bench: setup ## run the benchmarks: cost of a job, throughput, latency, waits, streams, flows, idling
	$(BIN)/python -m benchmarks.lifecycle
	$(BIN)/python -m benchmarks.growth
	$(BIN)/python benchmarks/clients.py
	$(BIN)/python -m benchmarks.submit
	$(BIN)/python -m benchmarks.throughput
	$(BIN)/python -m benchmarks.latency
	$(BIN)/python -m benchmarks.resume
	$(BIN)/python -m benchmarks.timers
	$(BIN)/python -m benchmarks.streams
	$(BIN)/python -m benchmarks.http
	$(BIN)/python -m benchmarks.flows
	$(BIN)/python -m benchmarks.idle

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) $(LOWEST) .pytest_cache .mypy_cache .ruff_cache .hypothesis
