# Every target starts from a bare clone: .venv is made when it is missing or the build file changed.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
BENCH_INSTALLED := .venv/bench-installed
DOCS_INSTALLED := .venv/docs-installed
# Each file of tests runs in one process, which makes its fixtures once.
PARALLEL := -n auto --dist loadfile
PIP_INSTALL := -m pip install --quiet --constraint constraints.txt
# Golden help texts depend on the versions of constraints.txt, and page tests on a browser.
PORTABLE_TESTS := src tests --ignore=tests/goldens --ignore=tests/report/browser

.PHONY: demo test test-slow test-faults test-core test-lowest check format coverage docs bench audit dist clean

demo: $(INSTALLED)  ## train CL and NCL on embedded data and compare them
	$(BIN)/nonneg demo --out demo

test: $(INSTALLED)  ## all quick tests and doctests
	$(BIN)/pytest -q $(PARALLEL)

test-slow: $(INSTALLED)  ## the tests that take longer
	$(BIN)/pytest -q $(PARALLEL) -m slow

test-faults: $(INSTALLED)  ## kills, races, full disks, damaged files, in thousands; resumable; writes docs/reliability.md
	$(BIN)/python tests/faults/long.py

test-core: .venv-core/installed  ## the quick tests without any extra installed
	.venv-core/bin/pytest -q $(PARALLEL) $(PORTABLE_TESTS)

test-lowest: .venv-lowest/installed  ## the quick tests with the lowest versions that pyproject.toml allows
	.venv-lowest/bin/pytest -q $(PARALLEL) $(PORTABLE_TESTS)

check: $(INSTALLED)  ## format, lint, types, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(MAKE) test

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

coverage: $(INSTALLED)  ## which lines the quick tests run; the total goes to coverage.json
	$(BIN)/pytest -q $(PARALLEL) --cov --cov-report=term:skip-covered --cov-report=json:coverage.json

docs: $(DOCS_INSTALLED)  ## the documentation, into site/; any warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	test -s site/index.html && test -s site/atlas-digits.html

bench: $(BENCH_INSTALLED)  ## speed against named peers, as ratios; writes benchmarks/results.md
	$(BIN)/python -m benchmarks

audit: .venv-audit/installed  ## whether any version of constraints.txt has a known vulnerability
	.venv-audit/bin/pip-audit --strict --no-deps --disable-pip --requirement constraints.txt

dist: $(INSTALLED)  ## a wheel in dist/, installed into a clean environment and tried
	rm -rf dist .venv-dist
	$(BIN)/python -m build --wheel
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python $(PIP_INSTALL) dist/*.whl
	cd .venv-dist && bin/nonneg demo --out demo
	test -s .venv-dist/demo/atlas.html

clean:
	rm -rf .venv .venv-* demo dist site coverage.json .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

.PHONY: python-version
python-version:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nonneg needs Python 3.11 or newer; set PYTHON=python3.11")'

$(INSTALLED): pyproject.toml constraints.txt | python-version
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python $(PIP_INSTALL) --editable ".[dev]"
	touch $@

$(BENCH_INSTALLED): $(INSTALLED)
	$(BIN)/python $(PIP_INSTALL) --editable ".[dev,bench]"
	touch $@

$(DOCS_INSTALLED): $(INSTALLED)
	$(BIN)/python $(PIP_INSTALL) --editable ".[dev,docs]"
	touch $@

.venv-audit/installed: | python-version
	test -x .venv-audit/bin/python || $(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet "pip-audit>=2.7"
	touch $@

.venv-core/installed: pyproject.toml constraints.txt | python-version
	test -x .venv-core/bin/python || $(PYTHON) -m venv .venv-core
	.venv-core/bin/python $(PIP_INSTALL) --editable ".[test]"
	touch $@

.venv-lowest/installed: pyproject.toml constraints-lowest.txt | python-version
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --constraint constraints-lowest.txt --editable ".[test]"
	touch $@
