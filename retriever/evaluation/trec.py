"""Rankings and judgements in TREC's text formats, for any other tool to read."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from retriever.core.errors import UsageError
from retriever.core.paths import atomic_write, writing
from retriever.evaluation.suites import ScoredIds

DEFAULT_TAG = "retriever"


def write_run(path: Path, rankings: Mapping[str, ScoredIds], *, tag: str = DEFAULT_TAG) -> None:
    """Write rankings by query id as a TREC run, one ``qid Q0 docid rank score tag`` a line, ranks from 1.

    Readers sort by score and break ties their own way, so a score that does not fall is written as the next smaller
    single-precision number: every reader then sees the order given here. The file appears whole or not at all.

    Raises:
        UsageError: an id or the tag is empty or holds white space, or a score rises with the rank.
        OutputError: the file cannot be written.
    """
    _write(path, _run_lines(rankings, tag))


def write_qrels(path: Path, relevant: Mapping[str, Mapping[str, int]]) -> None:
    """Write judgements as TREC qrels, one ``qid 0 docid relevance`` a line, ids in ascending order within a query.

    A relevance of 0 is judged and not relevant. The file appears whole or not at all.

    Raises:
        UsageError: an id is empty or holds white space.
        OutputError: the file cannot be written.
    """
    _write(path, _qrels_lines(relevant))


def export(
    folder: Path | None, name: str, rankings: Mapping[str, ScoredIds], relevant: Mapping[str, Mapping[str, int]]
) -> None:
    """Write ``NAME.run`` and ``NAME.qrels`` to an existing folder; nothing where there is none.

    White space in the name and in query ids becomes hyphens.

    Raises:
        UsageError: two query ids become one, or what `write_run` and `write_qrels` refuse.
        OutputError: a file cannot be written.
    """
    if folder is None:
        return
    fields = {query: "-".join(query.split()) for query in relevant}
    if len(set(fields.values())) < len(fields):
        raise UsageError(f"Query ids of {name} differ in white space alone.", hint="TREC files cannot hold them.")
    stem = "-".join(name.split())
    write_run(folder / f"{stem}.run", {fields[query]: found for query, found in rankings.items()}, tag=stem)
    write_qrels(folder / f"{stem}.qrels", {fields[query]: judged for query, judged in relevant.items()})


def _run_lines(rankings: Mapping[str, ScoredIds], tag: str) -> Iterable[str]:
    _check_field(tag, "tag")
    for query, ranking in rankings.items():
        _check_field(query, "query id")
        falling = strictly_falling([score for _, score in ranking])
        for rank, ((document, _), score) in enumerate(zip(ranking, falling, strict=True), start=1):
            _check_field(document, "document id")
            yield f"{query} Q0 {document} {rank} {score!r} {tag}\n"


def _qrels_lines(relevant: Mapping[str, Mapping[str, int]]) -> Iterable[str]:
    for query, judged in relevant.items():
        _check_field(query, "query id")
        for document in sorted(judged):
            _check_field(document, "document id")
            yield f"{query} 0 {document} {judged[document]}\n"


def strictly_falling(scores: Iterable[float]) -> list[float]:
    """Return the scores in single precision, each below the one before it.

    A score that is not below the one before becomes the next smaller number, so that equal scores keep their order in
    tools that break ties by id, descending as trec_eval does or ascending.

    Raises:
        UsageError: a score is higher than the one before it, or not a number.
    """
    falling: list[float] = []
    previous, lowest = math.inf, np.float32(np.inf)
    for score in scores:
        if not score <= previous:
            raise UsageError(f"A score of {score} follows one of {previous}.", hint="Rankings go best first.")
        previous = score
        lowest = min(np.float32(score), np.nextafter(lowest, np.float32(-np.inf)))
        falling.append(float(lowest))
    return falling


def _check_field(field: str, what: str) -> None:
    if not field or any(character.isspace() for character in field):
        raise UsageError(f"The {what} {field!r} is empty or holds white space.", hint="TREC files part fields by it.")


def _write(path: Path, lines: Iterable[str]) -> None:
    with writing(path, "--trec"), atomic_write(path) as file:
        file.writelines(line.encode() for line in lines)
