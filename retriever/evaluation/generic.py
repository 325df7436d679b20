"""The suite `generic`: what any embedder is asked, under a neutral instruction.

Similarity and retrieval run under the default instruction, clustering under one plain question, which every score
names. Retrieval goes through the real search path in every mode; only dense retrieval enters the suite's mean, since
lexical search is the same for all encoders.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from retriever.core.errors import InputError
from retriever.core.types import Document
from retriever.evaluation.metrics import cluster_v_measures, clustering_score, clustering_seeds, cosines, spearman
from retriever.evaluation.retrieval_metrics import ranking_measures
from retriever.evaluation.rows import LabelledRow, documents_of, held_out, read_rows, sample
from retriever.evaluation.scores import PERCENT, Rows, Score, mean_score, score
from retriever.evaluation.suites import Bench, DataFile, ScoredIds, SearchMode

INTENT_INSTRUCTION = "What does the customer want?"
RELATION_INSTRUCTION = "What is the relation between the two names that follow the sentence?"
SEARCH_MODES: tuple[SearchMode, ...] = ("dense", "lexical", "hybrid", "auto")
MEASURES: Mapping[str, str] = {"nDCG@10": "nDCG@10", "MAP": "AP", "recall@100": "R@100"}
DISTRACTORS = 4  # documents kept a query under a limit, besides those that are relevant

_DEPTH = 100
_NEUTRAL = "default instruction"


def sts(bench: Bench) -> Iterator[Score]:
    """Yield the Spearman correlation, times 100, of cosines with people's scores of sentence pairs (STS-B, test)."""
    rows = sample(_of_split(read_rows(bench.data, DataFile.SENTENCE_PAIRS), "test"), bench.limit, seed=bench.seed)
    firsts, seconds = ([row.get(key, str) for row in rows] for key in ("a", "b"))
    wanted = np.array([row.get("score", float) for row in rows], dtype=np.float64)
    vectors = bench.encoder.encode(firsts + seconds)
    similarities = cosines(vectors[: len(rows)], vectors[len(rows) :])  # (n,)

    def correlation(chosen: Rows) -> float:
        return PERCENT * spearman(similarities[chosen], wanted[chosen])

    yield score("sts", "Spearman", len(rows), correlation, seed=bench.seed, headline=True, note=_NEUTRAL)


def retrieval(bench: Bench) -> Iterator[Score]:
    """Yield nDCG@10, MAP and recall@100, times 100, of every search mode on the queries' own passages.

    A limit keeps that many queries, their relevant passages, and four others a query.
    """
    queries = sample(read_rows(bench.data, DataFile.WEB_QUERIES), bench.limit, seed=bench.seed)
    documents, relevant = _corpus_and_judgements(bench, queries)
    texts = [row.get("text", str) for row in queries]
    note = f"{_NEUTRAL}, {len(documents)} passages"
    for mode in SEARCH_MODES:
        task = f"retrieval {mode}"
        results = bench.search(documents, texts, instructions=[""] * len(texts), mode=mode, k=_DEPTH)
        rankings = dict(zip(relevant, results, strict=True))
        values = ranking_measures(rankings, relevant, list(MEASURES.values()))
        for metric, measure in MEASURES.items():
            headline = mode == "dense" and metric == "nDCG@10"
            yield mean_score(
                task, metric, values[measure], seed=bench.seed, scale=PERCENT, headline=headline, note=note
            )


def intents(bench: Bench) -> Iterator[Score]:
    """Yield the V-measure of clusters of customers' questions against their intents (BANKING77, test)."""
    rows = sample(_of_split(read_rows(bench.data, DataFile.INTENTS), "test"), bench.limit, seed=bench.seed)
    texts, labels = ([row.get(key, str) for row in rows] for key in ("text", "labels.intent"))
    yield _clustered(bench, "intents", texts, labels, INTENT_INSTRUCTION)


def relations(bench: Bench) -> Iterator[Score]:
    """Yield the V-measure of clusters of sentences with two names against the names' relation (FewRel).

    The names stand behind the sentence, as in InBedder's FewRel task.
    """
    rows = sample(held_out(read_rows(bench.data, DataFile.RELATIONS)), bench.limit, seed=bench.seed)
    texts = [f"{row.get('text', str)}\n{row.get('head', str)}; {row.get('tail', str)}" for row in rows]
    labels = [row.get("labels.relation", str) for row in rows]
    yield _clustered(bench, "relations", texts, labels, RELATION_INSTRUCTION)


def rerank(bench: Bench) -> Iterator[Score]:
    """Yield the MAP, times 100, of the section that answers a question among all sections of its story (FairytaleQA).

    The sections of one story share people and places, so topic alone does not tell them apart. Only the held-out split
    is read; a story with one section asks nothing and is left out. A limit keeps the questions of as few stories as
    hold that many.
    """
    sections: dict[str, dict[str, str]] = {}  # story -> text -> id
    cases: list[tuple[str, str, str]] = []  # question, story, id of its section
    for row in _of_split(read_rows(bench.data, DataFile.STORIES), "val"):
        story, text = row.get("meta.story", str), row.get("text", str)
        own = sections.setdefault(story, {})
        cases.append((row.get("question", str), story, own.setdefault(text, f"{story}/{len(own):04d}")))
    cases = [case for case in cases if len(sections[case[1]]) > 1]
    if not cases:
        raise InputError(
            f"{bench.data / DataFile.STORIES} has no story of two sections.", hint="Reranking needs candidates."
        )
    cases = _of_few_stories(cases, bench.limit, bench.seed)
    stories = dict.fromkeys(story for _, story, _ in cases)
    candidates = {identifier: text for story in stories for text, identifier in sections[story].items()}
    questions = bench.encoder.encode_queries([question for question, _, _ in cases])
    vectors = dict(zip(candidates, bench.encoder.encode(list(candidates.values())), strict=True))
    rankings: dict[str, ScoredIds] = {}
    for number, (_, story, _) in enumerate(cases):
        scored = [(section, float(vectors[section] @ questions[number])) for section in sections[story].values()]
        rankings[str(number)] = sorted(scored, key=lambda pair: (-pair[1], pair[0]))
    relevant = {str(number): {section: 1} for number, (_, _, section) in enumerate(cases)}
    values = ranking_measures(rankings, relevant, ["AP"])["AP"]
    note = f"{_NEUTRAL}, {np.mean([len(sections[story]) for _, story, _ in cases]):.1f} candidates a question"
    yield mean_score("rerank", "MAP", values, seed=bench.seed, scale=PERCENT, headline=True, note=note)


def _of_few_stories(cases: Sequence[tuple[str, str, str]], limit: int | None, seed: int) -> list[tuple[str, str, str]]:
    """Return at most ``limit`` questions, from so few stories that few sections have to be read."""
    stories = list(dict.fromkeys(story for _, story, _ in cases))
    for count in range(1, len(stories)):
        chosen = set(sample(stories, count, seed=seed))
        kept = [case for case in cases if case[1] in chosen]
        if limit is not None and len(kept) >= limit:
            return kept[:limit]
    return list(cases[:limit])


def _clustered(bench: Bench, task: str, texts: Sequence[str], labels: Sequence[str], instruction: str) -> Score:
    vectors = bench.encoder.encode(texts, instruction=instruction)
    clusterings = cluster_v_measures(vectors, labels, clustering_seeds(bench.seed))
    return clustering_score(task, clusterings, seed=bench.seed, headline=True, note=f"under {instruction!r}")


def _corpus_and_judgements(
    bench: Bench, queries: Sequence[LabelledRow]
) -> tuple[list[Document], dict[str, dict[str, int]]]:
    """Return the passages to search, in file order, and per query id the relevant ones, which are among them."""
    documents = documents_of(read_rows(bench.data, DataFile.PASSAGES))
    known = {document.id for document in documents}
    relevant: dict[str, dict[str, int]] = {}
    for row in queries:
        identifier = row.get("id", str)
        if identifier in relevant:
            raise row.problem(f"the id {identifier!r} is there twice")
        relevant[identifier] = dict.fromkeys(row.relevant(known, DataFile.PASSAGES), 1)
    needed = {passage for grades in relevant.values() for passage in grades}
    others = [document for document in documents if document.id not in needed]
    limit = None if bench.limit is None else DISTRACTORS * bench.limit
    needed |= {document.id for document in sample(others, limit, seed=bench.seed)}
    return [document for document in documents if document.id in needed], relevant


def _of_split(rows: Sequence[LabelledRow], split: str) -> list[LabelledRow]:
    """Return the rows of one split.

    Raises:
        InputError: there is none.
    """
    chosen = [row for row in rows if row.get("split", str) == split]
    if not chosen:
        raise InputError(f"{rows[0].file} has no row of the split {split!r}.", hint="The task scores that split alone.")
    return chosen
