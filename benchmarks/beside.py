"""What the plain reader adds to a search under an instruction, and how much of a say it should have.

    python benchmarks/beside.py DATA DATA2 --output benchmarks/results/beside.json

Three kinds of corpus are searched as indexes are by default, with both readers, under several weights of the plain
reader; at 0 the question reader is alone, and ``plain`` is the plain reader without the question. Grids: 40 texts under
twelve questions that were answered by reading (DATA2/asked.jsonl), none of which the shipped model was trained on;
the query is an answer, and relevant are the texts that have it. Labels: labelled files and their questions, of kinds
that training knows and of others; the query is a label's name. Both by ``auto``, nDCG@10, a mean a question.
Instructed: the suite `instructed-retrieval`, by vectors alone, whose instructions tell what to find. There the plain
reader reads the instruction before the query (`retriever.index.search.beside`); ``query alone`` says what it finds
without.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
from common import write
from verdict_kinds import Source, sources

from retriever import load_encoder
from retriever.core.paths import cache_dir
from retriever.core.protocols import Encoder
from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.types import Document
from retriever.core.verdicts import Verdict
from retriever.evaluation import instructed_retrieval
from retriever.evaluation.grids import SILENT
from retriever.evaluation.retrieval_metrics import ranking_measures
from retriever.evaluation.reversal import Question
from retriever.evaluation.run.embedding_cache import CachedEncoder, EmbeddingCache
from retriever.evaluation.scores import difference, mean_score
from retriever.evaluation.suites import Bench, ScoredIds, SearchMode
from retriever.index.readers import load_plain
from retriever.index.search import beside
from retriever.store.views import View
from retriever.workspace import Index

WEIGHTS = (0.0, 0.2, 0.3, 0.5, 0.7, 1.0)
PLAIN = "plain"
TEXTS = 150
MOST = 0.5
"""Share of the texts that an answer may have and still be looked for."""
MEASURE = "nDCG@10"
ALONE = "query alone"

Readers = tuple[Encoder, Encoder]
"""The question reader and the plain one."""


def main() -> None:
    """Parse the options, search everything under every weight, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("data2", type=Path)
    parser.add_argument("--encoder", default="default")
    parser.add_argument("--limit", type=int, default=TEXTS, help="Most texts of a labelled file.")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    with EmbeddingCache(cache_dir() / "evaluation") as cache:
        question, plain = load_encoder(options.encoder), load_plain()
        readers = CachedEncoder(question, cache), CachedEncoder(plain, cache)
        groups = labelled(readers, options)
        report = {
            "fingerprints": {"question": question.fingerprint, "plain": plain.fingerprint},
            "shipped": SearchOptions().plain_weight,
            "groups": {name: scores(found) for name, found in groups.items()},
            "instructed": instructed(readers, options.data),
        }
    write("beside", options, report)


def labelled(readers: Readers, options: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    """Return by group and way, the nDCG@10 of every question, in percent."""
    every = [source for source in sources(options.data, options.data2, options.limit) if source.name[:4] != "grid"]
    groups: dict[str, dict[str, list[float]]] = {}
    for source in [*grids(options.data2), *every]:
        for group, found in searched(readers, source):
            for way, value in found.items():
                groups.setdefault(group, {}).setdefault(way, []).append(value)
        print(source.name, {group: len(ways[PLAIN]) for group, ways in groups.items()}, flush=True)
    return groups


def grids(data2: Path) -> Iterator[Source]:
    """Yield every grid of the folder, each question in its first wording."""
    for line in (data2 / "asked.jsonl").read_text(encoding="utf-8").splitlines():
        grid = json.loads(line)
        questions = []
        for place, one in enumerate(grid["questions"]):
            answers = [row["answers"][place] for row in grid["rows"]]
            known = [None if answer in SILENT else answer for answer in answers]
            questions.append(Question(one["kind"], one["wordings"][:1], known))
        yield Source(f"grid{grid['grid']}", [row["text"] for row in grid["rows"]], questions, frozenset())


def searched(readers: Readers, source: Source) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the group of every question of a source, and the nDCG@10 of its answers as queries, by way."""
    wanted = [(one, answers) for one in source.questions if (answers := looked_for(one.answers))]
    instructions = sorted({one.wordings[0] for one, _ in wanted})
    with TemporaryDirectory() as folder, ExitStack() as stack:
        documents = [Document(f"{row:04}", text) for row, text in enumerate(source.texts)]
        opened = {}
        for weight in WEIGHTS:
            opened[str(weight)] = stack.enter_context(opening(folder, readers, weight))
            if len(opened) == 1:
                opened[str(weight)].add(documents, instructions=instructions)
        opened[PLAIN] = opened[str(WEIGHTS[0])]
        for question, answers in wanted:
            known = "known labels" if question.kind not in source.unmet else "unmet labels"
            group = "grids" if source.name.startswith("grid") else known
            found = {}
            for way, index in opened.items():
                request = SearchRequest(list(map(in_words, answers)), "" if way == PLAIN else question.wordings[0])
                found[way] = gain(index, request, question, answers)
            yield group, found


class Unjudged(Index):
    """An index that does not look whether its questions are followed, which would take most of the time here."""

    def _judge(self, views: Iterable[View], progress: object) -> dict[int, Verdict]:
        return {}


def opening(folder: str, readers: Readers, weight: float) -> Index:
    """Return the index of a folder, in which the plain reader has a weight."""
    question, plain = readers
    return Unjudged(Path(folder), encoder=question, plain=plain, search_options=SearchOptions(plain_weight=weight))


def looked_for(answers: Sequence[str | None]) -> list[str]:
    """Return the answers that two texts have at least, and not most."""
    said = [answer for answer in answers if answer]
    return sorted(one for one in set(said) if 2 <= said.count(one) <= MOST * len(answers))


def in_words(label: str) -> str:
    """Return an answer as somebody would look for it."""
    return label.replace("_", " ").replace("#", " ").lower()


def gain(index: Index, request: SearchRequest, question: Question, answers: Sequence[str]) -> float:
    """Return the mean nDCG@10 of the answers to a question as queries, in percent."""
    relevant = {
        answer: {f"{row:04}": 1 for row, one in enumerate(question.answers) if one == answer} for answer in answers
    }
    found = index.search_many(request)
    rankings: dict[str, ScoredIds] = {
        answer: [(hit.document.id, hit.fused) for hit in one.hits] for answer, one in zip(answers, found, strict=True)
    }
    return 100 * float(np.mean(ranking_measures(rankings, relevant, [MEASURE])[MEASURE]))


def scores(found: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return the mean of every way over questions, and what it has more than the question reader alone."""
    means = {way: mean_score("beside", MEASURE, np.array(values), seed=0) for way, values in found.items()}
    alone = means[str(WEIGHTS[0])]
    report: dict[str, Any] = {"questions": len(found[PLAIN])}
    for way, one in means.items():
        more = difference(one, alone)
        report[way] = {
            "value": round(one.value, 1),
            "more": [round(number, 1) for number in (more.value, more.low, more.high)],
        }
    return report


class TwoReaders:
    """Searches a corpus as the suite asks, with both readers; a `retriever.evaluation.suites.SearchPath`."""

    def __init__(self, readers: Readers, weight: float) -> None:
        self._readers = readers
        self._weight = weight

    def __call__(
        self,
        documents: Sequence[Document],
        queries: Sequence[str],
        *,
        instructions: Sequence[str],
        mode: SearchMode,
        k: int,
    ) -> list[ScoredIds]:
        """Return one ranking per query, from complete views."""
        with TemporaryDirectory() as folder, opening(folder, self._readers, self._weight) as index:
            index.add(documents, instructions=sorted(set(instructions)))
            found: list[ScoredIds] = []
            for query, instruction in zip(queries, instructions, strict=True):
                hits = index.search(query, instruction=instruction, mode=mode, k=k).hits
                found.append([(hit.document.id, hit.fused) for hit in hits])
            return found


def instructed(readers: Readers, data: Path) -> dict[str, dict[str, Any]]:
    """Return the scores of the suite `instructed-retrieval` by weight; and with the query alone at the shipped one."""
    found = {str(weight): suite(readers, data, weight) for weight in WEIGHTS}
    with patch.object(beside, "tells_what_to_find", lambda instruction: False):
        found[ALONE] = suite(readers, data, SearchOptions().plain_weight)
    return found


def suite(readers: Readers, data: Path, weight: float) -> dict[str, list[float]]:
    """Return every score of the suite, with both ends of its interval."""
    bench = Bench(data, readers[0], TwoReaders(readers, weight))
    every = [*instructed_retrieval.mams(bench), *instructed_retrieval.acos(bench)]
    print("instructed", weight, flush=True)
    return {
        f"{one.task}: {one.metric}": [round(number, 1) for number in (one.value, one.low, one.high)] for one in every
    }


if __name__ == "__main__":
    main()
