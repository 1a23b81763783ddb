# Everything runs in one virtual environment, .venv unless VENV says otherwise.
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: test lint types layers check format docs docs-serve bench demo lock

$(BIN)/pytest: requirements.lock pyproject.toml
	python3 -m venv $(VENV)
	$(BIN)/pip install -q -r requirements.lock
	$(BIN)/pip install -q --no-deps -e .
	touch $@

test: $(BIN)/pytest
	$(BIN)/pytest

lint: $(BIN)/pytest
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(BIN)/pytest
	$(BIN)/mypy

layers: $(BIN)/pytest
	$(BIN)/lint-imports

check: lint types layers test

format: $(BIN)/pytest
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(BIN)/pytest
	$(BIN)/zensical build --clean --strict

docs-serve: $(BIN)/pytest
	$(BIN)/zensical serve --dev-addr 127.0.0.1:8000

bench: $(BIN)/pytest
	$(BIN)/python benchmarks/core.py --quick

demo: $(BIN)/pytest
	$(BIN)/backscroll import examples/transcripts
	$(BIN)/backscroll search ferry

# Needs uv. No headers, no annotations: nothing of the machine that made it stays in the file.
lock:
	uv pip compile pyproject.toml --group dev --universal --python-version 3.11 \
		--generate-hashes --no-header --no-annotate -q -o requirements.lock
