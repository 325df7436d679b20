"""Per-query values of retrieval metrics, ready for `mean_score`: trec_eval's own through ir-measures, and p-MRR.

All of them see a ranking as ids in order of falling score, equal scores by ascending id. trec_eval on its own would put
equal scores by descending id and compare scores in single precision, so it is handed ranks instead of scores.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import ir_measures
import numpy as np

from retriever.core.errors import UsageError
from retriever.evaluation.scores import Floats
from retriever.evaluation.suites import ScoredIds


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
        UsageError: a measure is unknown, a ranking belongs to no query or holds a document twice.
    """
    parsed = {name: _parse(name) for name in measures}
    _check_queries(rankings, relevant)
    judged = {query: dict(grades) for query, grades in relevant.items()}
    run = {query: _falling_scores(rankings.get(query, ())) for query in relevant}
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
            rank after its last, so rankings should reach deep enough to hold them all.

    Raises:
        UsageError: a query lacks a ranking or a removed document, or a ranking holds a document twice.

    Source: Weller et al., "FollowIR: Evaluating and Teaching Information Retrieval Models to Follow Instructions",
    2024.
    """
    values = []
    for query, documents in removed.items():
        if query not in original or query not in changed:
            raise UsageError(f"Query {query!r} was not searched under both instructions.", hint="p-MRR compares them.")
        if not documents:
            raise UsageError(f"No document of query {query!r} loses its relevance.", hint="Leave the query out.")
        before, after = ranks(original[query]), ranks(changed[query])
        moves = [
            _rank_change(before.get(one, len(before) + 1), after.get(one, len(after) + 1)) for one in set(documents)
        ]
        values.append(sum(moves) / len(moves))
    return np.array(values)


def by_group(values: Floats, groups: Sequence[str], how: Callable[[Sequence[float]], float]) -> Floats:
    """Return one value, made by ``how``, for every group of values (n,), in the order in which the groups first appear.

    With nDCG@10 as the values, the query as the group of all its instructions and `min`, the mean of the result is
    Robustness@10.

    Source: Oh et al., "INSTRUCTIR: A Benchmark for Instruction Following of Information Retrieval Models", 2024.
    """
    members: dict[str, list[float]] = {}
    for group, value in zip(groups, values.tolist(), strict=True):
        members.setdefault(group, []).append(value)
    return np.array([how(one) for one in members.values()])


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


def _rank_change(before: int, after: int) -> float:
    return after / before - 1 if before > after else 1 - before / after


def _falling_scores(ranking: ScoredIds) -> dict[str, float]:
    places = ranks(ranking)
    return {document: float(len(places) - rank) for document, rank in places.items()}


def _check_queries(rankings: Mapping[str, ScoredIds], relevant: Mapping[str, Mapping[str, int]]) -> None:
    unknown = [query for query in rankings if query not in relevant]
    if unknown:
        raise UsageError(f"Nothing says what is relevant to query {unknown[0]!r}.", hint="Judge it or leave it out.")


def _parse(name: str) -> ir_measures.Measure:
    try:
        return ir_measures.parse_measure(name)
    except (NameError, ValueError) as error:
        raise UsageError(f"Unknown measure {name!r}.", hint="Such as nDCG@10, AP, R@100.") from error
