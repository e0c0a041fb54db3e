# Everything sets itself up: `make demo`, `make test`, `make lint` create .venv and install the pinned versions first.
SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
# The first interpreter of a supported version that can make virtual environments.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && echo $$p && break; done)
STAMP := $(VENV)/.installed

.PHONY: help setup test test-slow lint format demo docs dist extras floors reproduction-docs screenshots clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 20

setup: $(STAMP)  ## virtual environment with pinned dependencies

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "lrga needs Python 3.11, 3.12 or 3.13 with the venv module; set PYTHON=/path/to/python"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing pinned dependencies into $(VENV) (once; a few minutes on a slow line)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==$$(sed -n 's/^torch==//p' constraints.txt)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt hatchling editables
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

test: setup  ## the whole test suite
	@OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: setup  ## the tests that take minutes
	@$(BIN)/python -m pytest -m slow

lint: setup  ## style, formatting, types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: setup  ## apply the style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Threads that sleep while they wait for each other do no harm on a machine that others use too.
demo: setup  ## train GCN with and without LRGA, a few minutes on a CPU
	@OMP_WAIT_POLICY=PASSIVE $(BIN)/lrga demo

docs: setup  ## the documentation as HTML, into build/docs; fails on any warning
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open build/docs/index.html"

dist: setup  ## sdist and wheel, into dist, checked by twine
	@$(BIN)/python -m build --no-isolation
	@$(BIN)/python -m twine check --strict dist/*

extras: setup  ## test every optional extra in its own environment (downloads)
	@$(BIN)/python tests/packaging/environments.py extras

floors: setup  ## test with the oldest supported torch and PyG (downloads)
	@$(BIN)/python tests/packaging/environments.py floors

reproduction-docs: setup  ## regenerate results pages, README figure and CSV tables from reproduction/results
	@OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m reproduction.make_pages

screenshots: setup  ## pictures of the pages for the README, from real runs (a browser is needed)
	@OMP_WAIT_POLICY=PASSIVE $(BIN)/python reproduction/make_screenshots.py

clean:  ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
