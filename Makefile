# Two commands for a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
NODE := tests/browser/node_modules/.installed

.PHONY: demo test cluster lint a11y bench schema screenshots clean

demo: $(STAMP)
	@mkdir -p out
	@$(BIN)/prefixledger demo -o out/demo.html --workspace out/demo-workspace

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal

cluster: $(STAMP)
	$(BIN)/python -m pytest -m cluster

lint: $(STAMP)
	$(BIN)/ruff check pipeline tests benchmarks sample_traces docs
	$(BIN)/ruff format --check pipeline tests benchmarks sample_traces docs
	$(BIN)/mypy

a11y: $(STAMP) $(NODE)
	REQUIRE_BROWSER=1 $(BIN)/python -m pytest -m browser tests/browser

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

schema: $(STAMP)
	$(BIN)/python -m prefixledger.report.document.schema reports/schema/report.schema.json

screenshots: demo
	$(BIN)/python benchmarks/screenshots.py out/demo.html out/demo-workspace out/screenshots

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "needs Python 3.11 or later with venv; name one: make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@# Dependency groups need pip 25.1; the one that comes with Python 3.11 is older.
	$(PIP) install --upgrade -c constraints.txt pip
	$(PIP) install -c constraints.txt -e . --group dev
	@touch $@

# axe, Lighthouse and what drives the browser; the browser itself is the one of this machine.
$(NODE): tests/browser/package.json
	cd tests/browser && PUPPETEER_SKIP_DOWNLOAD=1 npm install --no-audit --no-fund --no-package-lock --loglevel=error
	@touch $@

clean:
	rm -rf tests/browser/node_modules $(VENV) out dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
