# Every target does its whole set-up; a newcomer needs only `make test` and `make demo`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-unit check lint types layers format lock clean help

help:  ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 15

$(READY): requirements-dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "resettle needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(READY)

demo: $(READY)  ## show evictions on a small cluster in the same process
	@$(BIN)/resettle demo $(DEMO)

# One test process for each core; a process without work takes tests that wait for another one.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist worksteal

# The packages that decide: functions of values, without clocks, sockets and files.
UNIT := tests/model tests/policy tests/framework tests/utilization tests/placement tests/plugins tests/simulate tests/explain

test: $(READY)  ## lint, types, layers and all tests, on all cores; minutes
	@began=$$(date +%s); status=0; \
	{ $(MAKE) --no-print-directory check && $(PYTEST) $(TEST); } || status=$$?; \
	echo "make test took $$(($$(date +%s) - began)) s"; exit $$status

test-unit: $(READY)  ## tests of what decides, without I/O and without the slow ones; under a minute
	@$(PYTEST) -q -m "not slow" --ignore tests/utilization/sources $(UNIT)

check: lint types layers code-rules  ## everything except the tests

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

code-rules: $(READY)  ## the rules of CONTRIBUTING that a program can check
	$(BIN)/python -m tools.code_rules

format: $(READY)  ## format the code
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: control-plane e2e
control-plane: $(READY)  ## build a Kubernetes control plane into the cache, once
	$(BIN)/python -m tools.control_plane.build

e2e: $(READY)  ## the suites that need a real control plane; docs/extend/e2e.md
	@$(BIN)/python -m tools.control_plane.run $(E2E)

.PHONY: soak
soak: $(READY)  ## ten minutes of cycles on a real control plane; memory and cache are checked
	$(BIN)/python -m tests.e2e.soak.command $(or $(SOAK),--minutes 10 --pods 2000)

.PHONY: e2e-jobs
e2e-jobs: $(READY)  ## the longer suites of migration jobs on a real control plane; a quarter of an hour
	@$(BIN)/python -m tools.control_plane.run tests/e2e/jobs

.PHONY: soak-jobs
soak-jobs: $(READY)  ## a hundred migration jobs while their leader is killed again and again
	$(BIN)/python -m tests.e2e.migration.chaos $(or $(SOAK),--jobs 100 --seed 1)

.PHONY: bench bench-large
bench: $(READY)  ## measure beside upstream (kubernetes-sigs/descheduler) at 100 and 1,000 nodes, in minutes
	$(BIN)/python -m bench.run --nodes 100 1000 --repeat 3 $(BENCH)

bench-large: $(READY)  ## measure at 5,000 nodes: half an hour and 10 GiB
	$(BIN)/python -m bench.run --nodes 5000 $(BENCH)

.PHONY: roles
roles: $(READY)  ## write the roles of deploy/
	$(BIN)/python -m tools.shipped_roles

.PHONY: rules
rules: $(READY)  ## write the rules of deploy/monitoring for the Prometheus operator
	$(BIN)/python -m tools.operator_rules

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url
.PHONY: plugin-pages
plugin-pages: $(READY)  ## write the generated parts of docs/reference/plugins
	$(BIN)/python -m tools.plugin_pages

lock: $(READY)  ## pin dependencies from pyproject.toml: to run, to build, to test
	$(LOCK) --extra otel pyproject.toml --output-file requirements.txt
	$(LOCK) --group build --output-file requirements-build.txt
	$(LOCK) --group dev pyproject.toml --output-file requirements-dev.txt

clean:  ## remove everything that make created
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .hypothesis
