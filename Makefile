# Everything sets itself up: a virtual environment in .venv, versions from constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist worksteal
# Tests start Python several hundred times; where it may not keep what it compiles, each time
# compiles all of perftui. Empty is unset.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all lint docs scenarios gpu-check bench screenshots clean

demo: $(STAMP)  ## a small slow training, in the app: cause, fix and proof
	$(BIN)/perftui demo

test: $(STAMP)  ## what to run before a commit: every test of less than a second, and one of each promise
	$(PYTEST) -m "not slow" $(PYTEST_ARGS)

test-all: test  ## every test but the benchmarks
	$(PYTEST) -m slow $(PYTEST_ARGS)

lint: $(STAMP)  ## style, types, and the walls between the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers auto
	$(BIN)/lint-imports

docs: $(STAMP)  ## the documentation as a site, in build/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "build/docs/index.html; with search: $(BIN)/python -m http.server -d build/docs"

scenarios: $(STAMP)  ## trainings with planted causes: how many the diagnosis names (20 minutes)
	$(BIN)/python -m tests.verify.scenarios.run $(SCENARIOS_ARGS)

# Takes the Python that has torch for the GPU as it is: there may be no network to install anything.
gpu-check:  ## what only a GPU can show, in eight minutes; WHEELS=DIR where perftui is not installed
	$(or $(wildcard $(BIN)/python),$(PYTHON)) -m tests.gpu.check $(if $(WHEELS),--wheels $(WHEELS)) $(GPU_CHECK_ARGS)

bench: $(STAMP)  ## measurements, as ratios in one run
	for file in tests/verify/benchmarks/bench_*.py; do echo "== $$file"; PYTHONPATH=. $(BIN)/python $$file || exit 1; done

screenshots: $(STAMP)  ## pictures of every screen and a film, from the real app on real runs
	$(BIN)/python screenshots/make.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Most of what is installed is never imported; Python compiles the rest when it is.
$(STAMP): pyproject.toml constraints.txt core/build_native.py $(wildcard core/perftui/*/*.[ch] core/perftui/*/*/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "perftui needs Python 3.10 or newer; choose one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
		--constraint constraints.txt --editable ".[dev,frameworks,torch]"
	touch $@
