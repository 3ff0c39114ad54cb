# Two doors: `make ocr` reads a picture, `make test` passes the tests. Each sets up its own .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
IMAGE ?= docs/images/sample.jpg
OUT ?= out
# CI gives CONSTRAINTS=constraints.txt for the exact versions; a user takes the ranges of pyproject.toml.
CONSTRAINTS ?=
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),-c $(CONSTRAINTS))

.PHONY: ocr test test-slow lint clean
.DELETE_ON_ERROR:

ocr: $(VENV)/.light
	@mkdir -p $(OUT)
	@$(BIN)/zoo ocr "$(IMAGE)" --draw --out $(OUT) && $(BIN)/python -c "import pathlib, sys; print(pathlib.Path(sys.argv[1]).read_text(encoding='utf-8'), end='')" "$(OUT)/$(basename $(notdir $(IMAGE))).txt"

test: $(VENV)/.dev
	$(BIN)/python -m pytest

test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/bin/python:
	@echo "Setting up $(VENV)"
	@$(PYTHON) -m venv $(VENV) || (rm -rf $(VENV); $(PYTHON) -m pip install --quiet --user virtualenv && $(PYTHON) -m virtualenv --quiet $(VENV))

# Reading needs no torch: a few minutes less, and some gigabytes.
$(VENV)/.light: pyproject.toml | $(VENV)/bin/python
	@echo "Installing the light package"
	@$(PIP) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	@echo "Installing the package with torch and the development tools"
	@$(PIP) -e '.[train,export,dev]'
	@touch $@ $(VENV)/.light

clean:
	rm -rf $(VENV) $(OUT) build dist *.egg-info
