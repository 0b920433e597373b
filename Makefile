# Everything runs from .venv, which `make install` builds from the pinned set in constraints.txt.
# Tools are called as `python -m tool`: that works in a tree that was moved, where script shebangs do not.

PYTHON  ?= python3
WORKERS ?= 2
VENV    := .venv
RUN     := $(VENV)/bin/python
PIP     := $(RUN) -m pip
STAMP   := $(VENV)/.installed
MARK    := $(VENV)/.installing
EXTRAS  := dev,docs,molecules,onnx,plot,ray,sweep-pg,train,vision

# Installing the package itself must not fetch an unpinned build tool, so the build tools are installed first,
# under the same constraints, and build isolation is off.
BUILD_TOOLS := hatchling editables

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install check test test-whole test-slow format demo bench docs lock clean force

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## Make .venv with the pinned set and the package

# The stamp holds the path of the tree: a copied .venv still points at the tree it was made for, and is redone.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
$(STAMP): force
endif

# An interrupted run leaves the mark .installing, and maybe a package half written that pip takes for whole: the next
# run starts from an empty .venv. Torch comes first and alone: the pin decides which build is taken before any other
# requirement can ask for a wider range.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "error: make install: expected Python 3.11 or newer; got $$($(PYTHON) --version 2>&1)." \
	         "Name one, as in: make install PYTHON=python3.11" >&2; exit 2; }
	@rm -f $@
	@test ! -e $(MARK) && $(RUN) -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	    || $(PYTHON) -m venv --clear $(VENV)
	@touch $(MARK)
	$(PIP) install --constraint constraints.txt torch
	$(PIP) install --constraint constraints.txt $(BUILD_TOOLS)
	$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[$(EXTRAS)]'
	$(PIP) check
	@rm $(MARK)
	@printf '%s' '$(CURDIR)' > $@

check: install ## Lint, formatting and types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

# One thread in each worker: two workers with two threads each would fight for the same cores.
test test-slow demo docs: export OMP_NUM_THREADS := 1
test test-slow: export MKL_NUM_THREADS := 1

test: check ## Check, then the doctests and the whole suite; lists the twenty slowest tests
	$(RUN) -m pytest -n $(WORKERS) --durations=20

test-whole: install ## Only the tests that run whole programs: the site, the demonstration, groups of processes
	$(RUN) -m pytest -n $(WORKERS) -m "whole and not slow"

test-slow: install ## Only the tests marked slow
	$(RUN) -m pytest -n $(WORKERS) -m slow

format: install ## Rewrite the sources in the agreed style
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

demo: install ## The five verbs on embedded digits, in minutes, with three seeds: demo/index.html, demo/results.json
	$(RUN) -m intertwine demo --out demo

bench: install ## Run every benchmark; results go to benchmarks/results/
	@for file in benchmarks/[a-z]*.py; do echo "== $$file"; $(RUN) $$file || exit 1; done

docs: install ## The documentation as a site without network: build/site/index.html
	$(RUN) -m sphinx -E -W --keep-going -q -b html -d build/doctrees docs build/site
	@echo "Open build/site/index.html"

lock: ## Resolve the newest set that fits pyproject.toml and rewrite constraints.txt
	rm -rf build/lock
	$(PYTHON) -m venv build/lock
	grep '^torch==' constraints.txt > build/torch.txt
	build/lock/bin/python -m pip install --constraint build/torch.txt torch
	build/lock/bin/python -m pip install --constraint build/torch.txt $(BUILD_TOOLS)
	build/lock/bin/python -m pip install --constraint build/torch.txt --no-build-isolation '.[$(EXTRAS)]'
	{ sed -n '/^#/p' constraints.txt; \
	  build/lock/bin/python -m pip freeze --all --exclude intertwine --exclude pip \
	  | sed 's/^\(torch==[^+]*\)+.*/\1/'; } > build/constraints.txt
	mv build/constraints.txt constraints.txt

clean: ## Remove everything the other targets made
	rm -rf $(VENV) build demo dist benchmarks/results .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks docs examples -name __pycache__ -type d -prune -exec rm -rf {} +
