# Everything here needs only make, bash and python3; ci/setup.sh brings the rest.
SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-full check docs measure audit lock release format clean distclean

BIN := .venv/bin
# Two workers share a small machine well; more than eight only wait for the emulators.
JOBS ?= $(shell python3 -c 'import os; print(max(2, min(8, os.cpu_count() or 2)))')
C_FILES = $(shell find compiler hil firmware_template tests/c -name '*.[ch]' -not -path '*/build/*' | sort)

help:
	@echo 'make setup      install what is missing, make .venv'
	@echo 'make demo       classify handwritten digits on an emulated board, compare every answer'
	@echo 'make test       the tests (ARGS="-k name" narrows them; JOBS=N sets the workers); of each'
	@echo '                campaign a sample'
	@echo 'make check      ruff, mypy --strict, import-linter, clang-format, cppcheck, stale pages'
	@echo 'make docs       write the reference pages anew, build the site in build/site, check its links'
	@echo 'make clean      remove build outputs and caches; distclean removes .venv too'
	@echo
	@echo 'For contributors:'
	@echo 'make test-full  the tests that are marked full: campaigns, and what is long and rarely changes'
	@echo 'make release    build wheel and source archive in dist, check both in fresh environments'
	@echo 'make format     format Python and C'
	@echo 'make measure    list the measurements, generators and campaigns; NAME=name runs one, with'
	@echo '                ARGS="..."; docs/how-to/ci.md says which are for what'

setup:
	@bash ci/setup.sh

demo: setup
	@$(BIN)/python examples/digits/demo.py

# A worker takes tests that stand together, which share what their module builds, and at the end
# some of what the other has left.
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test: setup
	$(PYTEST) -m 'not full' $(ARGS)

test-full: setup
	$(PYTEST) -m full $(ARGS)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python compiler/build_hook.py
	$(BIN)/mypy
	$(BIN)/mypy --allow-untyped-defs --allow-incomplete-defs tests
	$(BIN)/python tools/measure.py reference --check
	$(BIN)/lint-imports --no-cache
	@$(BIN)/clang-format --dry-run -Werror $(C_FILES)
	@command -v cppcheck >/dev/null || { echo 'cppcheck is missing: install the package cppcheck' >&2; exit 1; }
	@# cppcheck sees one file at a time, so what another file reads counts as unused.
	@# microTVM's signatures take pointers to what the function only reads.
	@cppcheck --quiet --error-exitcode=1 --std=c11 --inline-suppr \
	    --enable=warning,style,performance,portability --suppress=unusedStructMember \
	    '--suppress=constParameter:compiler/hilc/compat/tvm/runtime/crt/*' \
	    '--suppress=constParameter:tests/c/crt/*' \
	    -I compiler/runtime/include -I compiler/hilc/compat/tvm/runtime/include \
	    -I firmware_template/include $(C_FILES)

docs: setup
	$(BIN)/python tools/measure.py reference
	$(BIN)/python ci/docs.py

measure: setup
	@[ "$(NAME)" != torture ] || $(BIN)/python -c 'import atheris' 2>/dev/null || \
	    $(BIN)/python -m pip install -q --require-hashes --only-binary :all: -r ci/locks/torture.txt
	@# Its packages are in an environment of their own.
	$(if $(filter sklearn_models,$(NAME)),$(BIN)/python ci/environments.py sklearn python tools/sklearn_models.py,\
	    $(BIN)/python tools/measure.py $(or $(NAME),--list)) $(ARGS)

audit: setup
	$(BIN)/python ci/audit.py $(ARGS)

lock: setup
	$(BIN)/python ci/lock.py $(ARGS)

release: setup
	$(BIN)/python ci/release.py $(ARGS)

format: setup
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(C_FILES)

clean:
	rm -rf build dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv examples/*/.venv
