# Everything a newcomer needs: `make demo` runs the main job, `make test` passes the tests.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test docs get-started test-all check types tests fuzz bench bench-gpu comparison baselines questions whitening-study placebo st-versions constraints clean

demo: .venv/demo
	$(BIN)/isospace adapt docstrings

# A file of tests at a time in each process, so that what its tests share is made once; OpenMP
# threads of several processes would wait for each other. pytest keeps the files of tests as it has
# compiled them, and reads them in half of the time. The 20 slowest tests are listed at the end.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n logical --maxprocesses 8 \
	--dist loadfile --no-loadscope-reorder --durations=20

test: .venv/test
	$(MAKE) check

# With what takes seconds and guards what is rare, and with all of a kind, not one of each.
test-all: .venv/test
	$(MAKE) check SELECT='-m ""'

check:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(MAKE) -j 2 types tests

types:
	$(BIN)/mypy

# Compiled first, since every process that a test starts would compile it again where Python is told
# to write no bytecode.
tests:
	$(BIN)/python -m compileall -q src tests
	$(PYTEST) $(SELECT)

# The site, in site/; the same check is part of `make test`.
docs: .venv/test
	$(BIN)/python scripts/docs.py

# Runs the commands of docs/get-started, and refreshes the outputs that its pages show.
get-started: .venv/test
	$(BIN)/python scripts/refresh_get_started.py

# Every reader is fed with damaged files: TARGET for one of fuzz/targets.py, SECONDS for each. Needs
# atheris, which has wheels for Linux.
fuzz: .venv/fuzz
	$(BIN)/python fuzz/fuzz.py $(or $(TARGET),all) $(or $(SECONDS),600)

# CORPUS is a file of sentences, STS the folder of the STS sets; both are read where they lie.
bench: .venv/bench
	$(BIN)/python benchmarks/speed.py $(CORPUS) $(STS)

bench-gpu: .venv/bench
	$(BIN)/python benchmarks/speed.py $(CORPUS) $(STS) --parts train --page speed-gpu

comparison: .venv/test
	$(BIN)/python benchmarks/comparison.py $(CORPUS) $(STS)

baselines: .venv/test
	$(BIN)/python benchmarks/baselines.py $(CORPUS) $(STS)

questions: .venv/test
	$(BIN)/python benchmarks/questions.py $(CORPUS) $(STS)

# Judges the finished runs of one of the three again: no text, no training.
judge-%: .venv/test
	$(BIN)/python benchmarks/$*.py --judge $(STS)

# CORPUS: several files here.
whitening-study: .venv/test
	$(BIN)/python benchmarks/whitening_study.py $(CORPUS)

# What the verdict says where nothing changed.
placebo: .venv/test
	$(BIN)/python benchmarks/placebo.py $(STS)

# The exported folder under sentence-transformers 3, 5.1 and the newest; RUNS: what to export.
st-versions: .venv/test
	$(BIN)/python scripts/st_versions.py $(RUNS)

.venv/bin/python:
	$(PYTHON) -m venv .venv

# pip would compile what it installs on one core. Some packages carry files that do not compile, for
# their tests of parsers.
INSTALL := $(BIN)/python -m pip install -q --no-compile -c constraints.txt -e
COMPILE := $(BIN)/python -m compileall -qq -j 0 .venv/lib || true

.venv/demo: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) '.[offline]'
	$(COMPILE)
	touch $@

.venv/test: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) '.[dev]'
	$(COMPILE)
	touch $@ .venv/demo

.venv/fuzz: .venv/test
	$(BIN)/python -m pip install -q atheris
	touch $@

.venv/bench: .venv/test
	$(INSTALL) '.[bench]'
	$(COMPILE)
	touch $@

# The versions that the two commands install, for every Python from 3.10 on. torch brings its own
# CUDA packages where it needs them.
constraints: .venv/test
	$(BIN)/python -m pip install -q uv
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.10 \
		--no-header --no-annotate | grep -vE '^(nvidia-|cuda-|triton)' > constraints.txt

clean:
	rm -rf .venv
