# Two commands do everything: `make demo` and `make test`. Each makes its own virtual environment first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check
PYTHONS ?= $(foreach version,3.11 3.12 3.13,$(shell python$(version) -c 'print("python$(version)")' 2>/dev/null))

.PHONY: demo test test-slow quick bench docs test-all soak lock licences audit wheel pictures clean

demo: $(VENV)/.demo
	$(BIN)/trilith demo --out demo

test: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -m "not longest"

# The tests that make test leaves out: each takes a quarter of a minute or more.
test-slow: $(VENV)/.test
	$(BIN)/pytest -m longest

# Linter and all tests but those marked slow.
quick: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/pytest -m "not slow and not longest"

# The main figures of speed; make bench BASE=REV compares them with those of another commit.
bench: $(VENV)/.test
	$(BIN)/python benchmarks/bench.py $(if $(BASE),--base $(BASE))

# The site, in build/docs. A warning, such as a link that leads nowhere, is an error.
docs: $(VENV)/.docs
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -b html -d build/doctrees docs build/docs
	@echo "open build/docs/index.html"

# The tests on every Python found here of those that are supported; each has an environment of its own.
test-all:
	@test -n "$(PYTHONS)" || { echo "no Python 3.11, 3.12 or 3.13 found: name them, as in make test-all PYTHONS=/opt/python3.12/bin/python"; exit 2; }
	@for python in $(PYTHONS); do \
	  name=.venv-$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	  echo "== $$python"; $(MAKE) test PYTHON=$$python VENV=$$name || exit 1; \
	done

# What the environments are made of, fixed with hashes: run it after a change of the dependencies in pyproject.toml.
lock: $(VENV)/.created
	$(PIP) install --quiet uv
	requirements/lock.sh $(BIN)/uv

# Licences of what is installed.
licences: $(VENV)/.test
	$(BIN)/python requirements/licences.py

# Known vulnerabilities of what is locked; asks a database over the network.
audit: $(VENV)/.created
	$(PIP) install --quiet pip-audit
	$(BIN)/pip-audit --strict --require-hashes --disable-pip -r requirements/test.txt

# The package as it is installed from elsewhere, in dist/.
wheel: $(VENV)/.created
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .

# All at once, disturbed by a gremlin for so many minutes; as root it also fills a small disk.
MINUTES ?= 10
soak: $(VENV)/.test
	$(BIN)/python robustness/soak --minutes $(MINUTES)

# The pictures of the README.
pictures: $(VENV)/.demo
	$(BIN)/python tools/pictures.py

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	touch $@

# What is installed is what is locked. The demonstration needs no torch.
$(VENV)/.demo: $(VENV)/.created pyproject.toml requirements/demo.txt
	$(PIP) install --quiet --require-hashes --requirement requirements/demo.txt
	$(PIP) install --quiet --editable .
	touch $@

# torch, whose CPU and GPU builds have different hashes, is fixed by its version.
$(VENV)/.test: $(VENV)/.created pyproject.toml requirements/test.txt
	$(PIP) install --quiet --require-hashes --requirement requirements/test.txt
	$(PIP) install --quiet --editable ".[learn,ray,web,dev]"
	touch $@

# What the site is built with.
$(VENV)/.docs: $(VENV)/.demo requirements/docs.txt
	$(PIP) install --quiet --require-hashes --requirement requirements/docs.txt
	touch $@

clean:
	rm -rf $(VENV) .venv-3.* demo report build dist *.egg-info
