# Each command sets up .venv by itself when it is missing or older than the requirements.

PYTHON ?= python3
WORKERS ?= 2
BIN := .venv/bin
READY := .venv/.ready
NOTEBOOKS := $(wildcard notebooks/*.ipynb)
# What is recorded or compared holds no progress bar, and a matrix product in it is summed by one
# thread: the same digits for any number of cores, and no two threads that wait for each other.
RECORDED := TQDM_DISABLE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 VECLIB_MAXIMUM_THREADS=1

.DEFAULT_GOAL := help
.PHONY: help book test mutants parity bench lint browse onefile notebooks lab lock clean

help:  ## Show this list
	@grep -E '^[a-z]+:.*## ' Makefile | sed -E 's/^([a-z]+):.*## (.*)/\1|\2/' | awk -F'|' '{printf "make %-11s%s\n", $$1, $$2}'

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("Python 3.11 or later is needed, this is %d.%d; try: make PYTHON=python3.12" % v[:2])'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

book: $(READY)  ## Build the book, every notebook executed, into _build/html
	$(RECORDED) $(BIN)/jupyter-book build . $(BOOK_OPTIONS)
	@echo "Open $(CURDIR)/_build/html/index.html"

test: $(READY) lint  ## Run every test, then every cell of every notebook
	$(RECORDED) $(BIN)/python -m pytest tests --ignore=tests/browser --numprocesses $(WORKERS)
	$(RECORDED) $(BIN)/python -m pytest notebooks --nbval-lax --nbval-current-env \
	  --nbval-cell-timeout=900 --nbval-kernel-startup-timeout=180 \
	  --numprocesses $(WORKERS) --dist loadscope

mutants: $(READY)  ## Plant one mistake after another: the tests must find each
	$(RECORDED) $(BIN)/python tests/run_mutants.py --workers $(WORKERS)

parity: $(READY)  ## Compare outputs and gradients with PyTorch, which it installs
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement tests/parity/requirements.txt
	$(RECORDED) $(BIN)/python -m pytest tests/parity

bench: $(READY)  ## Measure a training step side by side with PyTorch, which it installs
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement tests/parity/requirements.txt
	$(BIN)/python -m benchmarks $(BENCH_OPTIONS)

lint: $(READY)  ## Check the style of the code, notebooks included
	$(BIN)/ruff check
	$(BIN)/ruff format --check

browse: $(READY)  ## Look at the built book in a headless browser
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement tests/browser/requirements.txt
	$(BIN)/python -m pytest tests/browser

onefile: $(READY)  ## Write the encoder in one file, _build/transformer.py
	$(BIN)/python book/_ext/onefile.py

notebooks: $(READY)  ## Execute every notebook and store its outputs
	$(RECORDED) $(BIN)/jupyter nbconvert --to notebook --execute --inplace \
	  --ExecutePreprocessor.record_timing=False --ExecutePreprocessor.timeout=900 $(NOTEBOOKS)

lab: $(READY)  ## Open the notebooks in JupyterLab
	$(BIN)/jupyter lab notebooks

lock:  ## Resolve requirements.txt anew from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
	  --fork-strategy fewest --no-header --no-emit-index-url --no-emit-find-links \
	  --annotation-style line --quiet --upgrade --output-file requirements.txt

clean:  ## Remove everything that the other commands made
	rm -rf .venv _build .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
