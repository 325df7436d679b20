"""Per-query values of retrieval metrics, ready for `mean_score`: trec_eval's own by ir-measures, p-MRR, SICR and WISE.

All of them see a ranking as ids in order of falling score, equal scores by ascending id. trec_eval on its own would put
equal scores by descending id and compare scores in single precision, so it is handed ranks instead of scores.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import ir_measures
import numpy as np

from retriever.core.errors import UsageError
from retriever.evaluation.scores import Floats
from retriever.evaluation.suites import ScoredIds

WISE_DEPTH = 20  # K of WISE


@dataclass(frozen=True, slots=True)
class ConditionRankings:
    """One query searched three ways: as it is, with a condition on the document, and with the condition denied.

    Attributes:
        original: ids with scores under no instruction.
        instructed: those under the condition.
        reversed: those under its denial.
        meeting: id of the document that meets the condition.
        judged: documents judged for the query, whether they meet the condition or not: N.
    """

    original: ScoredIds
    instructed: ScoredIds
    reversed: ScoredIds
    meeting: str
    judged: int


def ranking_measures(
    rankings: Mapping[str, ScoredIds], relevant: Mapping[str, Mapping[str, int]], measures: Sequence[str]
) -> Mapping[str, Floats]:
    """Return the values of every measure, one per query, in the order of ``relevant``.

    Args:
        rankings: what was found for every query id. A query that is not here, or found nothing, scores 0.
        relevant: by query id, the grade of every judged document: 0 not relevant, 1 and above relevant. A query
            without a relevant document scores 0.
        measures: names as ir-measures writes them: ``nDCG@10``, ``AP``, ``R@100``.

    Raises:
        UsageError: a ranking holds a document twice.
    """
    parsed = {name: ir_measures.parse_measure(name) for name in measures}
    judged = {query: dict(grades) for query, grades in relevant.items()}
    places = {query: ranks(rankings.get(query, ())) for query in relevant}
    run = {query: {document: float(len(own) - rank) for document, rank in own.items()} for query, own in places.items()}
    rows = {query: row for row, query in enumerate(relevant)}
    values = {measure: np.zeros(len(rows)) for measure in parsed.values()}
    for result in ir_measures.iter_calc(list(values), judged, run):
        values[result.measure][rows[result.query_id]] = result.value
    return {name: values[measure] for name, measure in parsed.items()}


def p_mrr_values(
    original: Mapping[str, ScoredIds], changed: Mapping[str, ScoredIds], removed: Mapping[str, Collection[str]]
) -> Floats:
    """Return the p-MRR of every query, -1 to 1, in the order of ``removed``; the papers print the mean times 100.

    With R_og and R_new the ranks of a document under the original and the changed instruction, and MRR = 1 / R, a
    document counts MRR_og / MRR_new - 1 where R_og > R_new, else 1 - MRR_new / MRR_og; a query counts the mean over its
    documents. 1: the documents that lost their relevance fell as far as can be. 0: they stayed. Below 0: they rose.

    Args:
        original: by query id, the ranking under the original instruction.
        changed: by query id, the ranking under the changed one.
        removed: by query id, the documents whose relevance the change removed. One that a ranking does not hold has the
            rank after its last, so rankings should reach deep enough to hold them all. At least one a query.

    Raises:
        UsageError: a ranking holds a document twice.

    Source: Weller et al., "FollowIR: Evaluating and Teaching Information Retrieval Models to Follow Instructions",
    2024.
    """
    values = []
    for query, documents in removed.items():
        before, after = ranks(original[query]), ranks(changed[query])
        moved = [
            (before.get(document, len(before) + 1), after.get(document, len(after) + 1)) for document in set(documents)
        ]
        moves = [new / old - 1 if old > new else 1 - old / new for old, new in moved]
        values.append(sum(moves) / len(moves))
    return np.array(values)


def sicr_values(queries: Sequence[ConditionRankings]) -> Floats:
    """Return 1 for every query whose document complies strictly, else 0: the items of SICR.

    With R the rank of the document that meets the condition and S its score, it complies where R_ins < R_ori < R_rev
    and S_ins > S_ori > S_rev. A document that was first already cannot comply. One that a ranking lacks has the rank
    after its last and no score.

    Source: InfoSearch (2410.23841), Strict Instruction Compliance Ratio.
    """
    values = []
    for query in queries:
        rankings = (query.instructed, query.original, query.reversed)
        first, middle, last = (_rank(ranking, query.meeting) for ranking in rankings)
        high, between, low = (dict(ranking).get(query.meeting, -np.inf) for ranking in rankings)
        values.append(float(first < middle < last and high > between > low))
    return np.array(values)


def wise_values(queries: Sequence[ConditionRankings]) -> Floats:
    """Return WISE of every query's document, -1 to 1; see `wise`.

    Source: InfoSearch (2410.23841), Weighted Instruction Sensitivity Evaluation.
    """
    values = []
    for query in queries:
        rankings = (query.original, query.instructed, query.reversed)
        values.append(wise(*(_rank(ranking, query.meeting) for ranking in rankings), judged=query.judged))
    return np.array(values)


def _rank(ranking: ScoredIds, document: str) -> int:
    """Return a document's rank, that after the last where the ranking lacks it."""
    places = ranks(ranking)
    return places.get(document, len(places) + 1)


def wise(original: int, instructed: int, reversed_: int, *, judged: int) -> float:
    """Return WISE of one document from its ranks under the query, the condition and its denial; ``judged`` is N.

    Where R_ins <= R_ori < R_rev it is 1 if R_ori <= N and R_ins = 1, else (1 - (R_ori - R_ins) / K) / sqrt(R_ins) if
    R_ori <= K, else 0.01. Otherwise it is -1 if R_rev < R_ori < R_ins, else (R_ori - R_ins) / R_ins if R_ori <= R_ins,
    else (R_rev - R_ori) / R_ori.
    """
    if instructed <= original < reversed_:
        if original <= judged and instructed == 1:
            return 1.0
        return (1 - (original - instructed) / WISE_DEPTH) / instructed**0.5 if original <= WISE_DEPTH else 0.01
    if reversed_ < original < instructed:
        return -1.0
    if original <= instructed:
        return (original - instructed) / instructed
    return (reversed_ - original) / original


def by_group(values: Floats, groups: Sequence[str], how: Callable[[Sequence[float]], float]) -> Floats:
    """Return one value, made by ``how``, for every group of values (n,), in the order in which the groups first appear.

    With nDCG@10 as the values, the query as the group of all its instructions and `min`, the mean of the result is
    Robustness@10.

    Source: Oh et al., "INSTRUCTIR: A Benchmark for Instruction Following of Information Retrieval Models", 2024.
    """
    members: dict[str, list[float]] = {}
    for group, value in zip(groups, values.tolist(), strict=True):
        members.setdefault(group, []).append(value)
    return np.array([how(own) for own in members.values()])


def ranks(ranking: ScoredIds) -> dict[str, int]:
    """Return the rank of every document, from 1: by falling score, equal scores by ascending id.

    Raises:
        UsageError: a document is there twice.
    """
    twice = [document for document, count in Counter(document for document, _ in ranking).items() if count > 1]
    if twice:
        raise UsageError(f"A ranking holds document {twice[0]!r} twice.", hint="Keep its best place alone.")
    ordered = sorted(ranking, key=lambda hit: (-hit[1], hit[0]))
    return {document: rank for rank, (document, _) in enumerate(ordered, start=1)}
