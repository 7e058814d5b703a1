# Everything a checkout needs: `make demo` shows the main job, `make test` proves it.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: all demo test lint proto proto-check bench e2e clean

all: test

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

demo: .venv/.installed
	$(BIN)/v010-adapter demo

test: .venv/.installed
	$(BIN)/pytest -q -rs

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

proto: .venv/.installed
	$(BIN)/python proto/generate.py

proto-check: .venv/.installed
	$(BIN)/python proto/generate.py --check

bench: .venv/.installed
	$(BIN)/python -m tests.bench

e2e: .venv/.installed
	$(BIN)/python -m tests.e2e

clean:
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
