r"""How near a lazy search comes to the complete view, by the number of candidates it reads under the instruction.

    python benchmarks/lazy_agreement.py DATA --output benchmarks/results/lazy_agreement.json

Labelled corpora: test reviews, few and many (a review is the query, what has its label is relevant), and MS MARCO
passages with queries that have instructions of their own. Every search is the product's, with both readers; only the
number of candidates is set, and texts whose vector under an instruction is known are not read again. ``alone`` is an
index in which no other question was asked, ``beside`` one that holds complete views of the other questions.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from common import write

from retriever import load_encoder
from retriever.core.errors import UsageError
from retriever.core.protocols import Encoder, WrappedEncoder
from retriever.core.requests import SearchOptions
from retriever.core.results import SearchResult
from retriever.core.types import Document, Encoded
from retriever.evaluation.labelled import LABELLED, balanced_sample, load_texts
from retriever.evaluation.retrieval_metrics import ranking_measures
from retriever.evaluation.rows import read_rows, sample
from retriever.evaluation.wordings import find_wordings
from retriever.index.encoding import view_key
from retriever.workspace import Index

CANDIDATES = (20, 60, 100, 200, 500)
K = 10
MEASURE = "nDCG@10"


@dataclass(frozen=True, slots=True)
class Question:
    """A query under an instruction, and the grade of every document that is relevant to it."""

    query: str
    instruction: str
    relevant: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents and what is asked of them."""

    name: str
    documents: Sequence[Document]
    questions: Sequence[Question]


class Known(WrappedEncoder):
    """An encoder that looks documents up in a complete view, and for which every text has one token."""

    def __init__(self, encoder: Encoder, whole: Index) -> None:
        super().__init__(encoder)
        self._whole = whole

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return 1 a text: the budget counts candidates."""
        return [1] * len(texts)

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Return what the whole index holds of documents under every instruction; queries are embedded.

        Raises:
            UsageError: it does not hold an instruction. So no verdict is looked for, which would have to read more.
        """
        if not words:
            return super().encode_views(texts, instructions, on_tokens=on_tokens)
        store = self._whole._opened.store
        ids = store.documents.known(texts)
        encoded = []
        held = [
            store.views.find(view_key(self._whole._opened.sources.encoders.question, instruction))
            for instruction in instructions
        ]
        for view in held:
            if view is None:
                raise UsageError("The index does not hold this instruction.")
            stored = store.vectors.get(view.view_id, [ids[text] for text in texts])
            encoded.append(Encoded(np.asarray(stored.embeddings), [answers[:words] for answers in stored.words]))
        return encoded


def reviews(data: Path, limit: int, queries: int, *, every_part: bool = False) -> Corpus:
    """Return reviews; queries are reviews that are not in the corpus, asked by category and by polarity.

    They are test reviews, or of ``every_part`` where more are wanted than those are; the model was trained on some.
    """
    source = replace(LABELLED["reviews"], trainable=not every_part)
    texts = balanced_sample(load_texts(data, source), limit + queries, seed=0)
    chosen = set(sample(range(len(texts)), queries, seed=0))
    anchors = [text for row, text in enumerate(texts) if row in chosen]
    rest = [text for row, text in enumerate(texts) if row not in chosen]
    documents = [Document(f"r{row}", text.text) for row, text in enumerate(rest)]
    questions = []
    for place, criterion in enumerate(source.criteria):
        instruction = find_wordings(source.name, criterion).instruction
        for anchor in anchors:
            same = {f"r{row}": 1 for row, other in enumerate(rest) if other.labels[place] == anchor.labels[place]}
            questions.append(Question(anchor.text, instruction, same))
    return Corpus("reviews by category and polarity", documents, questions)


def passages(data: Path, limit: int, queries: int) -> Corpus:
    """Return MS MARCO passages, those relevant to the queries among them; every query has its own instruction."""
    instructed = [row for row in read_rows(data, "retrieval_msmarco_queries.jsonl") if row.get("instructions", list)]
    chosen = sample(instructed, queries, seed=0)
    questions = [
        Question(row.get("text", str), row.get("instructions", list)[0], dict.fromkeys(row.get("relevant", list), 1))
        for row in chosen
    ]
    wanted = {id for question in questions for id in question.relevant}
    rows = [(row.get("id", str), row.get("text", str)) for row in read_rows(data, "retrieval_msmarco_corpus.jsonl")]
    others = sample([row for row in rows if row[0] not in wanted], max(0, limit - len(wanted)), seed=0)
    documents = [Document(*row) for row in rows if row[0] in wanted] + [Document(*row) for row in others]
    return Corpus("MS MARCO passages under instructions", documents, questions)


# A verdict reads a sample besides, and decides how much the base encoder counts.
@patch("retriever.index.search.rounds.wants_judging", new=lambda store, view: False)
@patch("retriever.index.completing.wants_judging", new=lambda store, view: False)
def measure(corpus: Corpus, readers: Mapping[str, Encoder], counts: Sequence[int]) -> dict[str, Any]:
    """Return agreement with the complete view and nDCG of lazy searches, by the candidates they read."""
    question = readers["encoder"]
    instructions = sorted({query.instruction for query in corpus.questions})
    with tempfile.TemporaryDirectory() as folder, Index(Path(folder) / "whole", **readers) as whole:
        whole.add(corpus.documents, instructions=instructions)
        curves: dict[str, list[dict[str, float]]] = {}
        for name, filled in (("alone", []), ("beside", instructions)):
            known = {**readers, "encoder": Known(question, whole)}
            with Index(Path(folder) / name, **known) as lazy:
                lazy.add(corpus.documents, instructions=filled)
            curves[name] = []
            for count in counts:
                depth = max(SearchOptions().candidates, count)
                # A text is a token, `Known`.
                options = SearchOptions(candidates=depth, token_budget=count, prompt_tokens=0, rounds=1)
                with (
                    Index(Path(folder) / "whole", **readers, search_options=options) as exactly,
                    Index(Path(folder) / name, **known, search_options=options) as lazy,
                ):
                    measured = _compared(*_ask(lazy, exactly, corpus, filled=bool(filled)), corpus)
                curves[name].append({"candidates": count, **measured})
                print(corpus.name, len(corpus.documents), name, curves[name][-1], file=sys.stderr, flush=True)
        exact = [whole.search(query.query, instruction=query.instruction, k=K) for query in corpus.questions]
    tokens = question.count_tokens([document.text for document in corpus.documents])
    return {
        "name": corpus.name,
        "documents": len(corpus.documents),
        "queries": len(corpus.questions),
        "tokens_per_text": round(statistics.mean(tokens), 1),
        "complete_view": {"ndcg_at_10": _ndcg(exact, corpus)},
        "curves": curves,
    }


def _ask(lazy: Index, whole: Index, corpus: Corpus, *, filled: bool) -> tuple[list[SearchResult], list[SearchResult]]:
    """Return the lazy answers and those of the complete view, their rankings equally deep."""
    results, exact = [], []
    for question in corpus.questions:
        if filled:
            lazy.upkeep.drop_views([question.instruction])
        results.append(lazy.search(question.query, instruction=question.instruction, k=K))
        lazy.upkeep.drop_views([question.instruction])
        if filled:
            lazy.add(corpus.documents, instructions=[question.instruction])
        exact.append(whole.search(question.query, instruction=question.instruction, k=K))
    return results, exact


def _compared(results: Sequence[SearchResult], exact: Sequence[SearchResult], corpus: Corpus) -> dict[str, float]:
    shares = [len(_ids(result) & _ids(other)) / len(other.hits) for result, other in zip(results, exact, strict=True)]
    return {"agreement": round(statistics.mean(shares), 4), "ndcg_at_10": _ndcg(results, corpus)}


def _ids(result: SearchResult) -> set[str]:
    return {hit.document.id for hit in result.hits}


def _ndcg(results: Sequence[SearchResult], corpus: Corpus) -> float:
    rankings = {f"q{row}": [(hit.document.id, hit.fused) for hit in result.hits] for row, result in enumerate(results)}
    relevant = {f"q{row}": question.relevant for row, question in enumerate(corpus.questions)}
    return round(float(ranking_measures(rankings, relevant, [MEASURE])[MEASURE].mean()), 4)


def main() -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", default="default")
    parser.add_argument("--plain", default="minilm")
    parser.add_argument("--limit", type=int, default=500, help="documents of each small corpus")
    parser.add_argument("--many", type=int, default=5000, help="documents of the large one")
    parser.add_argument("--queries", type=int, default=20, help="of each corpus, two instructions each for reviews")
    parser.add_argument("--candidates", type=int, nargs="+", default=CANDIDATES)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    readers = {"encoder": load_encoder(options.encoder), "plain": load_encoder(options.plain)}
    corpora = [make(options.data, options.limit, options.queries) for make in (reviews, passages)]
    corpora.append(reviews(options.data, options.many, options.queries, every_part=True))
    measured = [measure(corpus, readers, options.candidates) for corpus in corpora]
    fingerprints = {name: reader.fingerprint for name, reader in readers.items()}
    write("lazy_agreement", options, {"fingerprints": fingerprints, "corpora": measured})


if __name__ == "__main__":
    main()
