# Every target starts from a bare clone: .venv is made when it is missing or the build file changed.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
BENCH_INSTALLED := .venv/bench-installed

.PHONY: demo test test-slow check format bench clean

demo: $(INSTALLED)  ## train CL and NCL on embedded data and compare them
	$(BIN)/nonneg demo --out demo

test: $(INSTALLED)  ## all quick tests and doctests
	$(BIN)/pytest -q -n auto

test-slow: $(INSTALLED)  ## the tests that take longer
	$(BIN)/pytest -q -n auto -m slow

check: $(INSTALLED)  ## format, lint, types, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(MAKE) test

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(BENCH_INSTALLED)  ## speed against named peers, as ratios; writes benchmarks/results.md
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv demo dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nonneg needs Python 3.11 or newer; set PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

$(BENCH_INSTALLED): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,bench]"
	touch $@
