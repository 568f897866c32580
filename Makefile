# make demo: install what the demonstration needs and run it.   make test: install everything and run every check but
# the slow tests, which are in make slow.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check lint types layers docs tests slow bench campaign clean

demo: .venv/.demo
	$(BIN)/reground demo

test: .venv/.dev
	$(MAKE) --no-print-directory check

check: lint types layers docs tests

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy

layers:
	$(BIN)/lint-imports

docs:
	$(BIN)/zensical build --strict

# A file's tests stay in one process: its fixtures are made once. Tracing doubles their time before Python 3.12, so
# coverage is measured where it is asked for, as CI does: make test COVERAGE=yes && make slow COVERAGE=yes. The quick
# tests alone do not reach the gate, so it stands behind the slow ones.
tests:
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow" $(if $(COVERAGE),--cov --cov-report= --cov-fail-under=0)

slow: .venv/.dev
	$(BIN)/pytest -n 2 --dist loadfile -m slow $(if $(COVERAGE),--cov --cov-append --cov-report=term-missing:skip-covered)

bench: .venv/.dev
	$(BIN)/python -m benchmarks

# Hours; it goes on where it stopped. The records and the table are in campaign/.
campaign: slow
	$(BIN)/python -m tests.campaign

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip

.venv/.demo: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[local]'
	touch $@

.venv/.dev: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@ .venv/.demo

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache htmlcov .coverage .coverage.* dist site
