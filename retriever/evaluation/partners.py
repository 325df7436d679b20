"""Triplets and pairs from any texts with two labels: who shares which of the two with whom."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import InputError
from retriever.evaluation.scores import Rows

Kind: TypeAlias = tuple[bool, bool]
"""Whether two texts share the first label, and whether they share the second."""

FIRST_ALONE: Kind = (True, False)
SECOND_ALONE: Kind = (False, True)
TRIPLET_KINDS = (FIRST_ALONE, SECOND_ALONE)
PAIR_KINDS: tuple[Kind, ...] = ((True, True), FIRST_ALONE, SECOND_ALONE, (False, False))


@dataclass(frozen=True, slots=True)
class Partners:
    """Row numbers of texts (n,), and of partners (kinds, n, per_anchor) of every kind drawn for them."""

    kinds: tuple[Kind, ...]
    anchors: Rows
    rows: NDArray[np.int64]

    def of(self, kind: Kind) -> NDArray[np.int64]:
        """Return the (n, per_anchor) partners of one kind."""
        return np.asarray(self.rows[self.kinds.index(kind)])

    def shares(self, criterion: Literal[0, 1]) -> NDArray[np.bool_]:
        """Return (kinds,) whether the partners of each kind share the anchor's label under a criterion."""
        return np.array([kind[criterion] for kind in self.kinds])


def build_triplets(labels: Sequence[tuple[str, str]], *, per_anchor: int, seed: int, what: str) -> Partners:
    """Draw two-criterion triplets: beside every text, one that shares its first label alone and one its second alone.

    Both criteria judge the same triplets, each with the two partners in the opposite roles. A text is the anchor of
    ``per_anchor`` triplets, drawn with replacement; ``what`` names the texts in an error.

    Raises:
        InputError: no text has both partners.
    """
    return _draw(labels, TRIPLET_KINDS, per_anchor, seed, what)


def build_pairs(labels: Sequence[tuple[str, str]], *, seed: int, what: str) -> Partners:
    """Draw four pairs of every text: with one that shares both labels, the first alone, the second alone, and neither.

    So each criterion calls half of the pairs the same, and knowing which the one does says nothing of the other.

    Raises:
        InputError: no text has a partner of every kind.
    """
    return _draw(labels, PAIR_KINDS, 1, seed, what)


def _draw(labels: Sequence[tuple[str, str]], kinds: tuple[Kind, ...], count: int, seed: int, what: str) -> Partners:
    codes = [np.unique([pair[place] for pair in labels], return_inverse=True)[1] for place in (0, 1)]
    generator = np.random.default_rng(seed)
    anchors, rows = [], []
    for anchor in range(len(labels)):
        same = [code == code[anchor] for code in codes]
        others = np.arange(len(labels)) != anchor
        candidates = [
            np.flatnonzero((same[0] == first) & (same[1] == second) & others) for first, second in kinds
        ]  # (kinds,) lists of rows
        if all(len(one) for one in candidates):
            anchors.append(anchor)
            rows.append([generator.choice(one, count) for one in candidates])
    if not anchors:
        raise InputError(
            f"{what}: no text has partners that share one of its labels and not the other.",
            hint="Each label needs texts under two labels of the other kind; a small --limit leaves too few.",
        )
    return Partners(kinds, np.array(anchors), np.array(rows).transpose(1, 0, 2))
