# Two commands do everything: `make demo` and `make test`. Each makes its own virtual environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test pictures clean

demo: $(VENV)/.demo
	$(BIN)/trilith demo --out demo

test: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest

# The pictures of the README.
pictures: $(VENV)/.demo
	$(BIN)/python docs/pictures.py

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	touch $@

# What is installed follows pyproject.toml: a change there installs again.
$(VENV)/.demo: $(VENV)/.created pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[learn]"
	touch $@

$(VENV)/.test: $(VENV)/.created pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[learn,web,dev]"
	touch $@

clean:
	rm -rf $(VENV) demo report build *.egg-info
