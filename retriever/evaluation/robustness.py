"""Suite `robustness`: what is left of a score when the user words the instruction differently, or asks something else.

InBedder's test measures clustering (section 3.3), and so does this: mean V-measure, 0 to 1, under 10 correct, 10
implicit and 10 incorrect wordings of every criterion. A V-measure near 0 means that nothing of the label is left; the
success rate of triplets would stay near 1/2.

Tokens, with n texts of t tokens under 60 wordings that cost 25 tokens each with the template: n (t + 1,500), for 300
texts of each of three sources 1.4 million, nine minutes at 2,600 tokens a second. Robustness@10 adds 150,000 for the
corpus and 230,000 for 300 queries under 8 instructions each: two and a half minutes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np

from retriever.core.errors import InputError
from retriever.core.types import Document
from retriever.evaluation.labelled import LABELLED, LabelSource, balanced_sample, load_texts
from retriever.evaluation.metrics import ClusteringTask, cluster_v_measures, clustering_score, clustering_seeds
from retriever.evaluation.retrieval_metrics import by_group, ranking_measures
from retriever.evaluation.rows import LabelledRow, documents_of, read_rows, sample
from retriever.evaluation.scores import Score, combine, mean_score
from retriever.evaluation.suites import Bench, DataFile
from retriever.evaluation.wordings import WORDING_KINDS, WordingKind, find_wordings

MOST_TEXTS = 300  # most texts of a source
MOST_QUERIES = 300  # most queries of Robustness@10, each under all of its instructions
DEPTH = 10

DELTAS: Mapping[str, WordingKind] = {"Delta_ci": "correct", "Delta_ii": "implicit"}


@dataclass(frozen=True, slots=True)
class InstructedQuery:
    """A query that several users ask, each with an instruction of their own; what is relevant is so under all."""

    id: str
    text: str
    relevant: Sequence[str]
    instructions: Sequence[str]


def worded_scores(bench: Bench, source: LabelSource) -> Iterator[Score]:
    """Yield the mean V-measure of each kind of wording and the two Deltas, by criterion and on average.

    Delta_ci is the mean under the correct wordings less that under the incorrect ones, Delta_ii the same for the
    implicit wordings. An encoder that ignores the instruction has 0 in both.

    Source: Peng et al., "Answer is All You Need", ACL 2024, section 3.3.
    """
    texts = balanced_sample(load_texts(bench.data, source), bench.at_most(MOST_TEXTS), seed=bench.seed)
    wordings = [find_wordings(source.name, criterion) for criterion in source.criteria]
    instructions = [wording for own in wordings for kind in WORDING_KINDS for wording in own.of(kind)]
    views = dict(zip(instructions, bench.encoder.encode_many([text.text for text in texts], instructions), strict=True))
    deltas: dict[str, list[Score]] = {name: [] for name in DELTAS}
    for place, criterion in enumerate(source.criteria):
        labels, means = [text.labels[place] for text in texts], {}
        for kind in WORDING_KINDS:
            worded = [views[wording] for wording in wordings[place].of(kind)]
            runs = [cluster_v_measures(view, labels, clustering_seeds(bench.seed)) for view in worded]
            means[kind] = _mean_score(source.name, f"{criterion}, {kind} wordings", runs, seed=bench.seed)
        yield from means.values()
        for name, kind in DELTAS.items():
            gap = combine(source.name, f"{criterion}, {name}", [means[kind], means["incorrect"]], np.subtract.reduce)
            deltas[name].append(gap)
            yield gap
    for name, parts in deltas.items():
        yield combine(source.name, name, parts, lambda values: values.mean(axis=0), headline=True)


restaurants = partial(worded_scores, source=LABELLED["restaurants"])
reviews = partial(worded_scores, source=LABELLED["reviews"])
products = partial(worded_scores, source=LABELLED["products"])


def instructed_queries(bench: Bench) -> Iterator[Score]:
    """Yield Robustness@10: the lowest nDCG@10 that a query reaches over its instructions, averaged over queries.

    The corpus is embedded under the default instruction, each query under every one of its own.

    Source: Oh et al., "INSTRUCTIR: A Benchmark for Instruction Following of Information Retrieval Models", 2024.
    """
    documents = documents_of(read_rows(bench.data, DataFile.PASSAGES))
    queries = _queries(read_rows(bench.data, DataFile.WEB_QUERIES), documents)
    queries = sample(queries, bench.at_most(MOST_QUERIES), seed=bench.seed)
    pairs = [(query, instruction) for query in queries for instruction in query.instructions]
    results = bench.search(
        documents,
        [query.text for query, _ in pairs],
        instructions=[instruction for _, instruction in pairs],
        mode="dense",
        k=DEPTH,
    )
    runs = {f"{query.id}/{place}": query for place, (query, _) in enumerate(pairs)}
    relevant = {run: dict.fromkeys(query.relevant, 1) for run, query in runs.items()}
    rankings = dict(zip(runs, results, strict=True))
    measured = ranking_measures(rankings, relevant, [f"nDCG@{DEPTH}"])[f"nDCG@{DEPTH}"]
    groups = [query.id for query, _ in pairs]
    note = f"{len(queries)} queries under {len(pairs)} instructions among {len(documents)} documents"
    mean, lowest = by_group(measured, groups, fmean), by_group(measured, groups, min)
    yield mean_score("instructed-queries", f"nDCG@{DEPTH}", mean, seed=bench.seed, note=note)
    yield mean_score("instructed-queries", f"Robustness@{DEPTH}", lowest, seed=bench.seed, headline=True, note=note)


def _mean_score(task: str, metric: str, runs: Sequence[ClusteringTask], *, seed: int) -> Score:
    """Return the mean V-measure over all wordings and seeds; the same texts are resampled under every wording."""
    together = ClusteringTask(runs[0].labels, np.concatenate([run.assignments for run in runs]))
    by_wording = [run.values.mean() for run in runs]
    note = f"{len(runs)} wordings from {min(by_wording):.3f} to {max(by_wording):.3f}"
    return clustering_score(task, together, seed=seed, metric=metric, scale=1.0, note=note)


def _queries(rows: Sequence[LabelledRow], documents: Sequence[Document]) -> list[InstructedQuery]:
    """Return the queries that have several instructions.

    Raises:
        InputError: there is none, a row lacks a key, or names a document that is not in the corpus.
    """
    known = {document.id for document in documents}
    queries: dict[str, InstructedQuery] = {}
    for row in rows:
        relevant = row.relevant(known, DataFile.PASSAGES)
        query = InstructedQuery(row.get("id", str), row.get("text", str), relevant, _strings(row, "instructions"))
        if query.id in queries:
            raise row.problem(f"the id {query.id!r} is there twice")
        if len(set(query.instructions)) > 1:
            queries[query.id] = query
    if not queries:
        raise InputError(f"{rows[0].file}: no query has two instructions.", hint=f"Robustness@{DEPTH} compares them.")
    return list(queries.values())


def _strings(row: LabelledRow, key: str) -> list[str]:
    values: list[object] = row.get(key, list)
    if not all(isinstance(value, str) and value.strip() for value in values):
        raise row.problem(f"{key!r} holds something else than strings")
    return [str(value) for value in values]
