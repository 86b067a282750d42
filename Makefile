# Everything here needs only make, bash and python3; ci/setup.sh brings the rest.
SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-full check docs prove sweep conformance keras graphs networks transformers architectures exports evidence frontends bench costs noise faults torture audit lock report-look figures format clean distclean

BIN := .venv/bin
# Two workers share a small machine well; more than eight only wait for the emulators.
JOBS ?= $(shell python3 -c 'import os; print(max(2, min(8, os.cpu_count() or 2)))')
C_FILES = $(shell find compiler hil firmware_template tests/c -name '*.[ch]' -not -path '*/build/*' | sort)

help:
	@echo 'make demo       classify handwritten digits on an emulated board, compare every answer'
	@echo 'make test       the tests (ARGS="-k name" narrows them; JOBS=N sets the workers); of each'
	@echo '                campaign a sample'
	@echo 'make test-full  the tests that are marked full: campaigns, and what is long and rarely changes'
	@echo 'make check      ruff, mypy --strict, import-linter, clang-format, cppcheck, stale pages'
	@echo 'make docs       write the reference pages anew, build the site in build/site, check its links'
	@echo 'make prove      the MLPerf Tiny models on every board against the reference'
	@echo 'make sweep      100,000 quantizations of each operator that is a table against the reference'
	@echo 'make conformance  the whole backend suite of ONNX, here and on two boards: passed, failed,'
	@echo '                refused, and why'
	@echo 'make graphs     two thousand random graphs over all operators: how many equal the interpreter;'
	@echo '                a thousand random ONNX models: how many equal onnx.reference'
	@echo 'make keras      networks of Keras, also on two boards: how many equal the reference'
	@echo 'make networks   the networks of examples/networks on boards against TFLite Micro, and the'
	@echo '                memory of all networks beside its arena'
	@echo 'make transformers  the scripts of examples/transformers (with the extra torch, and torchao)'
	@echo 'make architectures  thirty architectures of PyTorch, in floats and int8, on emulated boards;'
	@echo '                ARGS="--python PYTHON" names one that has PyTorch, torchvision and timm'
	@echo 'make exports    libraries of every format of hil export: built, run, and read by the tools of'
	@echo '                their ecosystems, which get an environment of their own in build'
	@echo 'make frontends  the MLPerf Tiny models through TFLite, ONNX and PyTorch, on two boards'
	@echo 'make evidence   random cases of every operator, type and family of kernels, on two boards'
	@echo 'make bench      what they cost on six cores, beside what others need, and by how much the'
	@echo '                compiler was off in what each kernel would cost'
	@echo 'make costs      count what each kernel takes on each core, fit the tables of their costs'
	@echo 'make noise      inferences over lines that damage bytes: what is right, what it costs'
	@echo 'make report-look  the HTML page of kws and vww on three boards, in headless Chromium:'
	@echo '                layout, keyboard, axe-core; pictures in build/report_look'
	@echo 'make faults     a hundred faults in compiled models: how many verify --per-layer names rightly'
	@echo 'make torture    attack the line, parsers, front ends, files and the tests themselves for minutes;'
	@echo '                TORTURE=hours with the counts of docs/reliability.md (ARGS=NAME for one)'
	@echo 'make audit      known vulnerabilities of the Python packages, where a service can be asked; bills'
	@echo '                of materials of the environment and of an image (CycloneDX) in build/bom'
	@echo 'make lock       write the lock files in ci/locks anew (ARGS=--upgrade for the newest versions)'
	@echo 'make figures    write what make prove and make bench found into README.md and docs'
	@echo 'make format     format Python and C'
	@echo 'make setup      install what is missing, make .venv'
	@echo 'make clean      remove build outputs and caches; distclean removes .venv too'

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
	$(BIN)/python ci/reference.py --check
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
	$(BIN)/python ci/reference.py
	$(BIN)/python ci/docs.py

prove: setup
	$(BIN)/python ci/prove.py $(ARGS)

sweep: setup
	$(BIN)/python ci/sweep.py $(ARGS)

conformance: setup
	$(BIN)/python ci/conformance.py --board mps2-an386 --board mps3-an547 $(ARGS)

keras: setup
	$(BIN)/python ci/keras_networks.py --board mps2-an386 --board mps3-an547 $(ARGS)

graphs: setup
	$(BIN)/python ci/random_models.py $(ARGS)
	$(BIN)/python ci/random_models.py --onnx $(ARGS)

frontends: setup
	$(BIN)/python ci/front_ends.py $(ARGS)

networks: setup
	$(BIN)/python ci/networks.py $(ARGS)
	$(BIN)/python ci/arenas.py --print

transformers: setup
	$(BIN)/python examples/transformers/keywords.py
	$(BIN)/python examples/transformers/keywords.py --int8
	$(BIN)/python examples/transformers/language.py
	$(BIN)/python examples/transformers/language.py --int8 --board mps3-an547

architectures: setup
	$(BIN)/python ci/architectures.py $(ARGS)

exports: setup
	$(BIN)/python ci/exports.py $(ARGS)

evidence: setup
	$(BIN)/python ci/evidence.py $(ARGS)

bench: setup
	$(BIN)/python ci/budgets.py
	$(BIN)/python ci/bench.py $(ARGS)

costs: setup
	$(BIN)/python ci/costs.py measure
	$(BIN)/python ci/costs.py fit $(ARGS)
	$(BIN)/python ci/costs.py errors

noise: setup
	$(BIN)/python ci/noise.py $(ARGS)

report-look: setup
	$(BIN)/python ci/report_look.py $(ARGS)

faults: setup
	$(BIN)/python ci/faults.py $(ARGS)

torture: setup
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/python -m pip install -q \
	    --require-hashes --only-binary :all: -r ci/locks/torture.txt
	$(BIN)/python ci/torture.py $(ARGS)

audit: setup
	$(BIN)/python ci/audit.py $(ARGS)

lock: setup
	$(BIN)/python ci/lock.py $(ARGS)

figures: setup
	$(BIN)/python ci/figures.py

format: setup
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(C_FILES)

clean:
	rm -rf build dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv examples/*/.venv
