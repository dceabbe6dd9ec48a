# Everything is run from .venv, which is built from requirements.lock with nothing but Python itself. The lock is
# complete, so nothing else is looked for (--no-deps): pip would take `coverage[toml]` for another package than
# `coverage`, and refuse its newest version for not being in the lock.
#   make test PYTHON=python3.13      uses another interpreter (after `make clean`)

PYTHON ?= python3
LOCK_FLAGS ?=

VENV := .venv
STAMP := $(VENV)/.stamp
BENCH_STAMP := $(VENV)/.stamp-bench
DOCS_STAMP := $(VENV)/.stamp-docs
RUN := $(VENV)/bin/python
UV := $(VENV)/bin/uv
TRIED := build/tried
OLDEST := build/oldest
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links $(LOCK_FLAGS)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test quick lint format coverage dist oldest bench docs lock clean kernels

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: $(STAMP) kernels  ## learn how the jobs of a small system scale, and write a report about it
	@$(RUN) examples/demo.py

test: lint kernels  ## every check: style, types, layers, tests
	$(RUN) -m pytest -n auto --dist worksteal

quick: lint kernels  ## the same without what takes long: statistical and slow tests
	$(RUN) -m pytest -n auto -m "not statistical and not slow"

lint: $(STAMP)  ## style, types and layers only
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports

format: $(STAMP)  ## rewrite the code in the house style
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

coverage: $(STAMP) kernels  ## which lines the tests reach; compiled ones count where their source is run as Python
	$(RUN) -m pytest -n auto -m "not statistical" --cov --cov-report=term:skip-covered --cov-report=html

dist: $(STAMP)  ## wheel and sdist: built, installed into a fresh environment and tried
	rm -rf dist $(TRIED)
	$(UV) build --quiet --python $(RUN) --no-build-isolation
	$(RUN) -m venv $(TRIED)
	$(TRIED)/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd $(TRIED) && bin/corewise --version
	cd $(TRIED) && bin/corewise solve paper:1 --json
	cd $(TRIED) && bin/python -W error -c 'import corewise; print(corewise.__file__)'
	@ls -l dist

oldest: $(STAMP)  ## the tests with the oldest versions that pyproject.toml allows
	rm -rf $(OLDEST)
	$(RUN) -m venv $(OLDEST)
	$(UV) pip compile --quiet --no-header --resolution lowest-direct --python $(OLDEST)/bin/python \
		--all-extras --group dev --output-file $(OLDEST)/requirements.txt pyproject.toml
	$(UV) pip install --quiet --python $(OLDEST)/bin/python -r $(OLDEST)/requirements.txt
	$(UV) pip install --quiet --python $(OLDEST)/bin/python --no-deps --no-build-isolation -e .
	$(OLDEST)/bin/python -m pytest -n auto -W ignore::DeprecationWarning    # of newer ones they meet

bench: $(BENCH_STAMP) kernels  ## compare the speed with other solvers, simulators, fits and loops
	$(RUN) benchmarks/solve.py
	$(RUN) benchmarks/simulate.py
	$(RUN) benchmarks/estimate.py
	$(RUN) benchmarks/learn.py

docs: $(DOCS_STAMP)  ## build the site into build/docs and check the links within it
	rm -rf build/docs build/doctrees docs/api docs/gallery
	$(RUN) -m sphinx -W --keep-going -q -d build/doctrees docs build/docs
	$(RUN) docs/check_links.py build/docs
	@echo "Open build/docs/index.html"

lock: $(STAMP)  ## renew the lock files (LOCK_FLAGS=--upgrade takes the newest versions)
	$(COMPILE) pyproject.toml --extra plot --group dev --output-file requirements.lock
	$(COMPILE) benchmarks/requirements.in --constraint requirements.lock --output-file benchmarks/requirements.lock
	$(COMPILE) --group docs --constraint requirements.lock --output-file docs/requirements.lock

# numba compiles a kernel again if its own file has changed, and not if that of a kernel which it calls has: code
# kept from before would read arrays of another layout. So what is older than any kernel's source is removed.
kernels:
	@newest=$$(find src -path '*_kernels*' -name '*.py' -exec ls -t {} + | head -n 1); \
	find src \( -name '*.nbi' -o -name '*.nbc' \) ! -newer "$$newest" -exec rm -f {} +

clean:  ## remove .venv and everything generated
	rm -rf $(VENV) build dist docs/api docs/gallery .coverage htmlcov \
		.mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .schemathesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(STAMP): pyproject.toml requirements.lock
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "corewise needs Python 3.11 or newer, and '$(PYTHON)' was not found." >&2; \
		echo "Name another: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "corewise needs Python 3.11 or newer; '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1)." >&2; \
		echo "Name another: make PYTHON=python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "'$(PYTHON)' cannot make virtual environments: its venv or ensurepip module is missing." >&2; \
		echo "On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "Building $(VENV) (once; a minute or two) ..."
	@"$(PYTHON)" -m venv $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)
	@echo "$(VENV) is ready: $$($(RUN) --version), corewise and its tools."

$(BENCH_STAMP): $(STAMP) benchmarks/requirements.lock
	$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r benchmarks/requirements.lock
	@touch $(BENCH_STAMP)

$(DOCS_STAMP): $(STAMP) docs/requirements.lock
	$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r docs/requirements.lock
	@touch $(DOCS_STAMP)
