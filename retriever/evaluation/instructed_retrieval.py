"""The suite `instructed-retrieval`: queries whose relevant documents change with the instruction.

Restaurant reviews are labelled with aspects and what was said of each. An instruction asks for the reviews that
complain about one aspect, or praise it; relevant are the rows that hold that aspect with that polarity. Queries come in
two kinds: some name the aspect (`NAMING`), so that the instruction adds the polarity; others name nothing (`OPEN`), so
that it decides everything. The changed instruction turns the polarity, and for open queries the aspect as well. A
review that complains about one side of an aspect and praises another is relevant to both and counts as not removed.

With five aspects a file has 6 x 5 x 2 + 6 x 5 x 2 = 120 pairs of a query and an instruction, each of them changed
once; a pair that nothing is relevant to is left out. The wordings of a query are not independent of each other, which
the intervals do not know.

``conditions.jsonl``, for the task `conditions`, holds texts written for this project: four topics in each of six
dimensions (audience, keyword, format, language, length, source), and of every topic a text for each condition of the
dimension, such as one for laymen and one for experts. A topic is searched as it is, with the condition as the
instruction, and with the condition denied, among all texts of the dimension. The set is small and has one author: it
tells an encoder that follows such conditions from one that does not. The design is that of InfoSearch (2410.23841),
whose data is not used.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Literal, get_args

from retriever.core.errors import InputError
from retriever.core.types import Document
from retriever.evaluation.retrieval_metrics import (
    ConditionRankings,
    p_mrr_values,
    ranking_measures,
    ranks,
    sicr_values,
    wise_values,
)
from retriever.evaluation.rows import LabelledRow, documents_of, held_out, read_rows, sample
from retriever.evaluation.scores import PERCENT, Score, combine, mean_score
from retriever.evaluation.suites import Bench, DataFile, ScoredIds

MOST_REVIEWS = 1500  # most reviews of a file that are searched: they are read under ten instructions

Polarity = Literal["negative", "positive"]
POLARITIES: tuple[Polarity, ...] = get_args(Polarity)

VERBS: Mapping[Polarity, str] = {"negative": "complain about", "positive": "praise"}
INSTRUCTION = "Find reviews that {verb} the {aspect}."
NAMING = (
    "reviews about the {aspect}",
    "what guests say about the {aspect}",
    "opinions on the {aspect}",
    "{aspect}",
    "how was the {aspect}?",
    "comments that mention the {aspect} of the restaurant",
)
OPEN = (
    "restaurant reviews",
    "what guests say",
    "opinions of people who ate there",
    "how was it?",
    "comments about an evening out",
    "experiences at this place",
)
MAMS_ASPECTS: Mapping[str, tuple[str, ...]] = {
    "food": ("food",),
    "service": ("service", "staff"),
    "atmosphere": ("ambience",),
    "prices": ("price",),
    "menu": ("menu",),
}
ACOS_ASPECTS: Mapping[str, tuple[str, ...]] = {
    "food": ("FOOD#GENERAL", "FOOD#QUALITY", "FOOD#STYLE_OPTIONS"),
    "service": ("SERVICE#GENERAL",),
    "atmosphere": ("AMBIENCE#GENERAL",),
    "prices": ("FOOD#PRICES", "DRINKS#PRICES", "RESTAURANT#PRICES"),
    "drinks": ("DRINKS#QUALITY", "DRINKS#STYLE_OPTIONS"),
}


@dataclass(frozen=True, slots=True)
class Need:
    """An information need that an instruction expresses: an aspect, in plain words, and what is said of it."""

    aspect: str
    polarity: Polarity

    @property
    def instruction(self) -> str:
        """The need as a sentence."""
        return INSTRUCTION.format(verb=VERBS[self.polarity], aspect=self.aspect)


@dataclass(frozen=True, slots=True)
class InstructedQuery:
    """One query, what its instruction asks for, and what the changed instruction asks for."""

    query: str
    need: Need
    changed: Need

    @property
    def id(self) -> str:
        """Unique within a file."""
        return "-".join([*self.query.split(), "under", self.need.aspect, self.need.polarity])

    @property
    def changed_id(self) -> str:
        """The id of the same query under the changed instruction."""
        return replace(self, need=self.changed).id


def mams(bench: Bench) -> Iterator[Score]:
    """Yield nDCG@10 and p-MRR, times 100, on MAMS, whose sentences all hold two aspects of different polarity."""
    return _scores(bench, "mams", held_out(read_rows(bench.data, DataFile.MAMS)), MAMS_ASPECTS)


def acos(bench: Bench) -> Iterator[Score]:
    """Yield nDCG@10 and p-MRR, times 100, on the restaurant sentences of ACOS."""
    return _scores(bench, "acos", read_rows(bench.data, DataFile.RESTAURANTS), ACOS_ASPECTS)


def pairs(aspects: Sequence[str]) -> list[InstructedQuery]:
    """Return every query under every instruction it goes with, and what that instruction changes to.

    A naming query keeps its aspect and turns its polarity; an open one also goes on to the next aspect. So the changed
    instruction of a query is always one that it is searched under itself.
    """
    queries = []
    for need in _needs(aspects):
        after = aspects[(aspects.index(need.aspect) + 1) % len(aspects)]
        turned: Polarity = "positive" if need.polarity == "negative" else "negative"
        queries += [
            InstructedQuery(text.format(aspect=need.aspect), need, Need(need.aspect, turned)) for text in NAMING
        ]
        queries += [InstructedQuery(text, need, Need(after, turned)) for text in OPEN]
    return queries


def _scores(
    bench: Bench, task: str, rows: Sequence[LabelledRow], aspects: Mapping[str, tuple[str, ...]]
) -> Iterator[Score]:
    chosen = sample(rows, bench.at_most(MOST_REVIEWS), seed=bench.seed)
    documents, answering = documents_of(chosen), _relevant(chosen, aspects)
    queries = [query for query in pairs(list(aspects)) if answering[query.need]]
    searched = {query.id for query in queries}
    turned = [query for query in queries if query.changed_id in searched]  # the others change to what nothing answers
    lost = {query.id: answering[query.need] - answering[query.changed] for query in turned}
    removed = {pair: reviews for pair, reviews in lost.items() if reviews}
    if not removed:
        problem = "no aspect with both complaints and praise"
        raise InputError(f"{rows[0].file} has {problem}.", hint="Raise --limit, or check the labels.")
    results = bench.search(
        documents,
        [query.query for query in queries],
        instructions=[query.need.instruction for query in queries],
        mode="dense",
        k=len(documents),  # the ranks of documents that lost their relevance reach all the way down
    )
    rankings: dict[str, ScoredIds] = {query.id: ranking for query, ranking in zip(queries, results, strict=True)}
    relevant = {query.id: dict.fromkeys(answering[query.need], 1) for query in queries}
    note = f"dense, {len(queries)} pairs of query and instruction, {len(documents)} reviews"
    gains = ranking_measures(rankings, relevant, ["nDCG@10"])["nDCG@10"]
    yield mean_score(task, "nDCG@10", gains, seed=bench.seed, scale=PERCENT, headline=True, note=note)
    changed = {query.id: rankings[query.changed_id] for query in queries if query.id in removed}
    values = p_mrr_values(rankings, changed, removed)
    yield mean_score(task, "p-MRR", values, seed=bench.seed, scale=PERCENT, headline=True, note=note)


def _relevant(rows: Sequence[LabelledRow], aspects: Mapping[str, tuple[str, ...]]) -> dict[Need, frozenset[str]]:
    """Return the ids of the reviews that answer every need."""
    held = {row.get("id", str): {_label(row, aspect) for aspect in row.get("aspects", list)} for row in rows}
    relevant = {}
    for need in _needs(list(aspects)):
        wanted = {(category, need.polarity) for category in aspects[need.aspect]}
        relevant[need] = frozenset(review for review, labels in held.items() if labels & wanted)
    return relevant


def _label(row: LabelledRow, aspect: object) -> tuple[str, str]:
    if isinstance(aspect, Mapping):
        category, polarity = aspect.get("aspect"), aspect.get("polarity")
        if isinstance(category, str) and isinstance(polarity, str):
            return category, polarity
    raise row.problem("an entry of 'aspects' lacks its aspect or polarity")


def _needs(aspects: Sequence[str]) -> list[Need]:
    return [Need(aspect, polarity) for aspect in aspects for polarity in POLARITIES]


_CONDITIONS = "conditions"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a document: the instruction that asks for it, and the one that denies it."""

    name: str
    instruction: str
    reversed_instruction: str


@dataclass(frozen=True, slots=True)
class Topic:
    """A query, and by condition the text on it that meets the condition."""

    query: str
    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Dimension:
    """Conditions of one kind, and the topics that have a text for each of them."""

    name: str
    conditions: Sequence[Condition]
    topics: Sequence[Topic]

    @property
    def documents(self) -> list[Document]:
        """Every text of every topic."""
        return [Document(_text_id(topic, name), text) for topic in self.topics for name, text in topic.texts.items()]


@cache
def dimensions() -> Sequence[Dimension]:
    """Return the packaged set."""
    lines = resources.files(__package__).joinpath("conditions.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    result = []
    for name in dict.fromkeys(row["dimension"] for row in rows):
        own = [row for row in rows if row["dimension"] == name]
        conditions = [
            Condition(row["condition"], row["instructed"], row["reversed"]) for row in own if "condition" in row
        ]
        topics = [Topic(row["query"], row["texts"]) for row in own if "query" in row]
        result.append(Dimension(name, conditions, topics))
    return result


def conditions(bench: Bench) -> Iterator[Score]:
    """Yield SICR and WISE, times 100, of every dimension and their means; a limit is that of a dimension's topics."""
    by_metric: dict[str, list[Score]] = {"SICR": [], "WISE": []}
    for dimension in dimensions():
        cases = rankings_of(bench, dimension)
        first = sum(ranks(case.original).get(case.meeting) == 1 for case in cases)
        note = f"dense, {len(cases)} queries among {len(dimension.documents)} texts, {first} of them answered already"
        for metric, values in {"SICR": sicr_values(cases), "WISE": wise_values(cases)}.items():
            name = f"{dimension.name}, {metric}"
            by_metric[metric].append(mean_score(_CONDITIONS, name, values, seed=bench.seed, scale=PERCENT, note=note))
    for metric, parts in by_metric.items():
        yield from parts
        yield combine(_CONDITIONS, metric, parts, lambda values: values.mean(axis=0), headline=True)


def rankings_of(bench: Bench, dimension: Dimension) -> list[ConditionRankings]:
    """Search every topic of a dimension under no instruction, under each condition and under its denial."""
    topics = sample(dimension.topics, bench.limit, seed=bench.seed)
    searches = [(topic.query, "") for topic in topics]
    for condition in dimension.conditions:
        searches += [(topic.query, condition.instruction) for topic in topics]
        searches += [(topic.query, condition.reversed_instruction) for topic in topics]
    documents = dimension.documents
    results = bench.search(
        documents,
        [query for query, _ in searches],
        instructions=[instruction for _, instruction in searches],
        mode="dense",
        k=len(documents),
    )
    ranking_of = dict(zip(searches, results, strict=True))
    return [
        ConditionRankings(
            original=ranking_of[topic.query, ""],
            instructed=ranking_of[topic.query, condition.instruction],
            reversed=ranking_of[topic.query, condition.reversed_instruction],
            meeting=_text_id(topic, condition.name),
            judged=len(topic.texts),
        )
        for condition in dimension.conditions
        for topic in topics
    ]


def _text_id(topic: Topic, condition: str) -> str:
    return f"{topic.query}/{condition}"
