"""Suite `awareness`: do the same texts come close under one instruction and part under another?

Every source of texts with two labels is measured in three ways: two-criterion triplets, pair similarity and two-way
clustering, all over one pool of texts that is embedded once, under both instructions in one pass. The triplet file adds
triplets that come with their own instructions. All scores are in percent.

Tokens, with n texts of t tokens and instructions that cost 30 tokens each with the template: n (t + 60). For the pools
of 1,000 texts that is 80,000 (restaurants), 155,000 (reviews) and 85,000 (products), and 520,000 for the 4,300 texts of
the triplet file: 840,000 in all, five and a half minutes at 2,600 tokens a second.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from retriever.core.types import Embeddings
from retriever.evaluation.labelled import (
    LABELLED,
    PAIR_KINDS,
    TRIPLET_KINDS,
    LabelledText,
    LabelSource,
    Partners,
    balanced_sample,
    draw_partners,
    load_texts,
)
from retriever.evaluation.metrics import (
    cluster_v_measures,
    clustering_score,
    clustering_seeds,
    cosines,
    spearman,
    triplet_successes,
    v_measure,
)
from retriever.evaluation.rows import LabelledRow, read_rows, sample
from retriever.evaluation.scores import PERCENT, Floats, Score, combine, harmonic_mean, mean_score, score
from retriever.evaluation.suites import Bench, DataFile
from retriever.evaluation.wordings import find_wordings

MOST_TEXTS = 1000  # most texts of a source
PER_ANCHOR = 10  # triplets a text is the anchor of: about a point either way, and no text more to embed


@dataclass(frozen=True, slots=True)
class Pool:
    """The texts of a source as embedded, (n, dim), under the instruction of each of its two criteria.

    The seed is that of what is drawn from the pool.
    """

    source: LabelSource
    texts: Sequence[LabelledText]
    views: Sequence[Embeddings]
    seed: int

    @property
    def labels(self) -> list[tuple[str, str]]:
        """Both labels of every text."""
        return [text.labels for text in self.texts]


@dataclass(frozen=True, slots=True)
class LabelTriplet:
    """A row of the triplet file: anchor, texts that share the first and the second criterion, and the instructions."""

    texts: tuple[str, str, str]
    instructions: tuple[str, str]


def triplets(bench: Bench) -> Iterator[Score]:
    """Score the triplets of a file that brings its own instructions; its criteria are the keys of these."""
    rows = read_rows(bench.data, DataFile.TRIPLETS)
    criteria = _criteria(rows[0])
    chosen = sample([_triplet(row, criteria) for row in rows], bench.limit, seed=bench.seed)
    successes = np.empty((2, len(chosen)))
    for instructions in dict.fromkeys(triplet.instructions for triplet in chosen):
        places = [place for place, triplet in enumerate(chosen) if triplet.instructions == instructions]
        texts = [text for place in places for text in chosen[place].texts]
        for criterion, view in enumerate(bench.encoder.encode_many(texts, instructions)):
            anchor, first, second = view.reshape(len(places), 3, -1).transpose(1, 0, 2)  # (places, dim) each
            same, other = (first, second) if criterion == 0 else (second, first)
            successes[criterion, places] = triplet_successes(anchor, same, other)
    yield from _triplet_scores("triplets", criteria, successes, seed=bench.seed)


def labelled_scores(bench: Bench, source: LabelSource) -> Iterator[Score]:
    """Yield the triplet, pair and clustering scores of a source of texts with two labels."""
    texts = balanced_sample(load_texts(bench.data, source), bench.at_most(MOST_TEXTS), seed=bench.seed)
    instructions = [find_wordings(source.name, criterion).instruction for criterion in source.criteria]
    views = bench.encoder.encode_many([text.text for text in texts], instructions)
    pool = Pool(source, texts, views, bench.seed)
    yield from pool_triplets(pool)
    yield from pool_pairs(pool)
    yield from pool_clustering(pool)


restaurants = partial(labelled_scores, source=LABELLED["restaurants"])
reviews = partial(labelled_scores, source=LABELLED["reviews"])
products = partial(labelled_scores, source=LABELLED["products"])


def pool_triplets(pool: Pool) -> Iterator[Score]:
    """Yield the success rates of triplets drawn from a pool, and their harmonic mean."""
    drawn = draw_partners(pool.labels, TRIPLET_KINDS, per_anchor=PER_ANCHOR, seed=pool.seed, what=pool.source.file)
    successes = np.stack(
        [
            triplet_successes(view[drawn.anchors][:, None], view[drawn.rows[place]], view[drawn.rows[1 - place]]).mean(
                axis=1
            )
            for place, view in enumerate(pool.views)
        ]
    )  # (2, anchors)
    note = f"{PER_ANCHOR} triplets of each of {len(drawn.anchors)} texts; the interval is over texts"
    yield from _triplet_scores(pool.source.name, pool.source.criteria, successes, seed=pool.seed, note=note)


def pool_pairs(pool: Pool) -> Iterator[Score]:
    """Yield how well the cosine tells pairs of one label from pairs of two, under each criterion and on average."""
    drawn = draw_partners(pool.labels, PAIR_KINDS, seed=pool.seed, what=pool.source.file)
    note = f"4 pairs of each of {len(drawn.anchors)} texts; the interval is over texts"
    parts = [_pair_score(pool, drawn, 0, note), _pair_score(pool, drawn, 1, note)]
    yield from parts
    yield combine(
        pool.source.name, "pairs, mean Spearman", parts, lambda values: values.mean(axis=0), headline=True, note=note
    )


def pool_clustering(pool: Pool) -> Iterator[Score]:
    """Yield the V-measure of k-means under each criterion, and the harmonic mean."""
    labels = list(zip(*pool.labels, strict=True))  # one tuple a criterion
    tied = PERCENT * v_measure(*(np.unique(column, return_inverse=True)[1] for column in labels))
    parts = [
        clustering_score(
            pool.source.name,
            cluster_v_measures(pool.views[place], labels[place], clustering_seeds(pool.seed)),
            seed=pool.seed,
            metric=f"clustering, V-measure by {criterion}",
            scale=PERCENT,
        )
        for place, criterion in enumerate(pool.source.criteria)
    ]
    yield from parts
    note = f"V-measure of the one label against the other: {tied:.1f}"
    yield combine(pool.source.name, "clustering, harmonic mean", parts, harmonic_mean, headline=True, note=note)


def _triplet_scores(
    task: str, criteria: Sequence[str], successes: Floats, *, seed: int, note: str = ""
) -> Iterator[Score]:
    """Yield the mean of (2, n) successes for each criterion, and the harmonic mean of the two."""
    parts = [
        mean_score(task, f"triplets, success by {criterion}", values, seed=seed, scale=PERCENT, note=note)
        for criterion, values in zip(criteria, successes, strict=True)
    ]
    yield from parts
    yield combine(task, "triplets, harmonic mean", parts, harmonic_mean, headline=True, note=note)


def _pair_score(pool: Pool, drawn: Partners, criterion: Literal[0, 1], note: str) -> Score:
    view = pool.views[criterion]
    closeness = np.stack([cosines(view[drawn.anchors], view[rows[:, 0]]) for rows in drawn.rows])  # (kinds, anchors)
    same = np.repeat([[kind[criterion]] for kind in drawn.kinds], len(drawn.anchors), axis=1)  # (kinds, anchors)
    return score(
        pool.source.name,
        f"pairs, Spearman by {pool.source.criteria[criterion]}",
        len(drawn.anchors),
        lambda rows: PERCENT * spearman(closeness[:, rows].ravel(), same[:, rows].ravel()),
        seed=pool.seed,
        note=note,
    )


def _criteria(row: LabelledRow) -> tuple[str, str]:
    """Read the two criteria that tell the triplets apart: the keys of the first row's instructions."""
    match list(row.get("instructions", dict)):
        case [first, second]:
            return first, second
        case keys:
            raise row.problem(f"'instructions' names {len(keys)} criteria and not two")


def _triplet(row: LabelledRow, criteria: tuple[str, str]) -> LabelTriplet:
    first, second = criteria
    texts = (row.get("anchor", str), row.get(f"same_{first}", str), row.get(f"same_{second}", str))
    return LabelTriplet(texts, (row.get(f"instructions.{first}", str), row.get(f"instructions.{second}", str)))
