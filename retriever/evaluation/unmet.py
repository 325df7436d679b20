"""Suite `unmet`: does an encoder follow questions that its training never asked?

Kept out are whole kinds of question with all their wordings, and the files whose texts they are asked of (`triplets`,
`reversal`; the list is ``unmet.json``), and kinds that were asked of texts one by one and answered by reading
(`asked`). Every kind is asked in several wordings, and not at all: without a question, texts with the same answer are
nearer in more than half of the triplets, since what is alike in one thing is often alike in others. All scores are in
percent. Means over kinds have an interval over kinds, those of a single kind over texts.

Tokens, with n texts a file of t tokens (12 to 98, mean 31) and wordings that cost 25 each with the end of the template
and the look-ahead tokens: per text of a file t + 30, and 250 a kind, which over the 23 kinds of 13 files is 6,500. For
100 texts a file that is 650,000; `reversal` finds all of it in the cache. The 240 texts of `asked` under 60 wordings
each take 380,000. Together that is 1.03 million, eleven and a half minutes at 1,500 tokens a second, for an encoder
that reads a text once for all instructions. With a limit below 100 three wordings are asked and not all: at 60 texts a
file, and two grids, 220,000 tokens, two and a half minutes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from retriever.core.errors import InputError
from retriever.evaluation.grids import (
    Grid,
    Reversal,
    Triplets,
    grid_reversals,
    grid_triplets,
    held_out_grids,
    kinds_grid,
    read_grid,
)
from retriever.evaluation.scores import PERCENT, Rows, Score, harmonic_mean, mean_score, score
from retriever.evaluation.suites import Bench
from retriever.evaluation.wordings import FAMILIES, UnmetKind, asked_in_training, unmet_kinds

MOST_TEXTS = 100  # most texts of a file
QUICK_WORDINGS = 3  # wordings of a kind where a limit leaves fewer texts

FAR = "kinds far from training"
"""The group of the kinds without a near one that training asks, or may ask."""


def triplets(bench: Bench) -> Iterator[Score]:
    """Yield the share of triplets that come right for every kind: over all wordings, in the worst, and not asked.

    Of a text, one with the same answer and one with another, the former should be nearer. The means are over kinds: of
    a family, of the kinds without a near relative in training, and of all.

    Source: the triplets of Peng et al., "Answer is All You Need", ACL 2024, section 3.2; the lowest of several wordings
    as in Oh et al., "INSTRUCTIR", 2024.
    """
    by_kind: dict[str, Triplets] = {}
    for grid in _labelled_grids(bench, by_file(unmet_kinds())):
        measured = {result.kind: result for result in grid_triplets(grid, read_grid(bench.encoder, grid))}
        for question in grid.questions:
            if question.kind not in measured:
                raise _too_few(grid.name, question.kind)
        by_kind.update(measured)
    for kind in unmet_kinds():
        yield from _kind_scores(by_kind[kind.kind], kind.family, seed=bench.seed)
    for name, members in groups().items():
        yield from _mean_scores("triplets", name, [by_kind[kind] for kind in members], seed=bench.seed)
    yield from _mean_scores("triplets", "all kinds", list(by_kind.values()), seed=bench.seed, headline=True)


def reversal(bench: Bench) -> Iterator[Score]:
    """Yield the reversal score of every two kinds whose answers are known of the same texts, and means over pairs.

    For kinds a and b and texts i, j, k with y_a(i) = y_a(j) != y_a(k) and y_b(i) = y_b(k) != y_b(j) it is the harmonic
    mean of P[sim_a(i, j) > sim_a(i, k)] and P[sim_b(i, k) > sim_b(i, j)]. An encoder that ignores the question has one
    similarity for both: the two sum to 1, and the score is at most 50. The mean of a family, or of another
    group, is over the pairs with at least one of its kinds.

    Source: the harmonic mean over two criteria of Peng et al., ACL 2024, section 3.2, for any two questions.
    """
    files = {file: kinds for file, kinds in by_file(unmet_kinds()).items() if len(kinds) > 1}
    reversals: list[Reversal] = []
    for grid in _labelled_grids(bench, files):
        reversals += grid_reversals(grid, read_grid(bench.encoder, grid))
    if not reversals:
        raise _too_few(str(bench.data), "any two kinds")
    for pair in reversals:
        yield _pair_score(pair, seed=bench.seed)
    for name, members in groups().items():
        having = [pair for pair in reversals if members & set(pair.kinds)]
        yield from _mean_reversal("reversal", name, having, seed=bench.seed)
    yield from _mean_reversal("reversal", "all pairs", reversals, seed=bench.seed, headline=True)


def asked(bench: Bench) -> Iterator[Score]:
    """Yield both measures for the questions of held-out grids, asked of texts one by one and answered by reading.

    The texts may be in training rows, under other questions. Kinds that a training grid asks too, under the same name,
    are known; all others are unmet. A pair of kinds is known as soon as one of the two is.
    """
    grids, known = held_out_grids(bench.data, limit=bench.limit, wordings=_wordings(bench.limit), seed=bench.seed)
    known |= asked_in_training()
    kinds: list[Triplets] = []
    pairs: list[Reversal] = []
    for grid in grids:
        alike = read_grid(bench.encoder, grid)
        kinds += grid_triplets(grid, alike)
        pairs += grid_reversals(grid, alike)
    if not any(kind.kind not in known for kind in kinds) or not any(known.isdisjoint(pair.kinds) for pair in pairs):
        raise _too_few(grids[0].name, "any unmet question")
    for name, wanted in (("known kinds", True), ("unmet kinds", False)):
        chosen = [kind for kind in kinds if (kind.kind in known) == wanted]
        yield from _mean_scores("asked", name, chosen, seed=bench.seed, headline=not wanted)
        between = [pair for pair in pairs if known.isdisjoint(pair.kinds) != wanted]
        yield from _mean_reversal("asked", name, between, seed=bench.seed, headline=not wanted)


def by_file(kinds: Iterable[UnmetKind]) -> dict[str, list[UnmetKind]]:
    """Return the kinds of every file."""
    files: dict[str, list[UnmetKind]] = {}
    for kind in kinds:
        files.setdefault(kind.file, []).append(kind)
    return files


def groups() -> dict[str, frozenset[str]]:
    """Return the names of the kinds of every family, and of those that have no near relative in training."""
    kinds = unmet_kinds()
    families = {family: frozenset(kind.kind for kind in kinds if kind.family == family) for family in FAMILIES}
    return families | {FAR: frozenset(kind.kind for kind in kinds if not kind.near)}


def _labelled_grids(bench: Bench, files: Mapping[str, Sequence[UnmetKind]]) -> Iterator[Grid]:
    limit, wordings = bench.at_most(MOST_TEXTS), _wordings(bench.limit)
    for kinds in files.values():
        yield kinds_grid(bench.data, kinds, limit=limit, wordings=wordings, seed=bench.seed)


def _wordings(limit: int | None) -> int | None:
    return None if limit is None or limit >= MOST_TEXTS else QUICK_WORDINGS


def _kind_scores(kind: Triplets, family: str, *, seed: int) -> Iterator[Score]:
    each = PERCENT * kind.by_wording
    note = f"{family}; {len(each)} wordings from {each.min():.1f} to {each.max():.1f}; the interval is over texts"
    worst = kind.asked[int(each.argmin())]
    for name, values in (("asked", kind.asked.mean(axis=0)), ("worst wording", worst), ("not asked", kind.unasked)):
        yield mean_score("triplets", f"{kind.kind}, {name}", values, seed=seed, scale=PERCENT, note=note)


def _mean_scores(
    task: str, name: str, kinds: Sequence[Triplets], *, seed: int, headline: bool = False
) -> Iterator[Score]:
    """Yield means over kinds: asked, in the worst of each kind's wordings, not asked, and what asking gains."""
    if not kinds:
        return
    over = np.array([[kind.asked.mean(), kind.by_wording.min(), kind.unasked.mean()] for kind in kinds]).T  # (3, kinds)
    note = f"{len(kinds)} kinds in {len(kinds[0].asked)} wordings; the interval is over kinds"
    named = {
        "asked": over[0],
        "worst wording": over[1],
        "not asked": over[2],
        "asked less not asked": over[0] - over[2],
    }
    for metric, values in named.items():
        leads = headline and metric != "not asked"
        yield mean_score(task, f"{name}, {metric}", values, seed=seed, scale=PERCENT, headline=leads, note=note)


def _pair_score(pair: Reversal, *, seed: int) -> Score:
    def statistic(rows: Rows) -> float:
        return PERCENT * float(harmonic_mean(pair.successes[:, :, rows].mean(axis=2)).mean())

    each = PERCENT * pair.by_wording
    note = f"{len(each)} wordings from {each.min():.1f} to {each.max():.1f}; the interval is over texts"
    metric = f"{pair.kinds[0]} and {pair.kinds[1]}, reversal"
    return score("reversal", metric, pair.successes.shape[2], statistic, seed=seed, note=note)


def _mean_reversal(
    task: str, name: str, pairs: Sequence[Reversal], *, seed: int, headline: bool = False
) -> Iterator[Score]:
    """Yield means over pairs of kinds: of the reversal score, and of that in the worst wording."""
    if not pairs:
        return
    note = f"{len(pairs)} pairs of kinds; the interval is over pairs"
    over = np.array([[pair.by_wording.mean(), pair.by_wording.min()] for pair in pairs]).T  # (2, pairs)
    for metric, values in {"reversal": over[0], "reversal, worst wording": over[1]}.items():
        leads = headline and metric == "reversal"
        yield mean_score(task, f"{name}, {metric}", values, seed=seed, scale=PERCENT, headline=leads, note=note)


def _too_few(where: str, kind: str) -> InputError:
    return InputError(
        f"{where}: no text has both a text with its answer to {kind} and one with another answer.",
        hint="An answer needs two texts, and a kind two answers; a small --limit leaves too few.",
    )
