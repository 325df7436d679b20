"""Texts with two labels each, such as what a review is about and how its writer feels, and triplets and pairs of them.

A source says where its labels are in a row. `LABELLED` lists the sources of the suites; any other corpus with two
labels becomes one with `labels_at`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import InputError
from retriever.evaluation.rows import LabelledRow, held_out, read_rows
from retriever.evaluation.scores import Rows
from retriever.evaluation.suites import DataFile

ReadLabels: TypeAlias = Callable[[LabelledRow], tuple[str, str] | None]
"""The two labels of a row; None for one that has not exactly one of each."""


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text and its label under each of the source's two criteria."""

    text: str
    labels: tuple[str, str]


@dataclass(frozen=True, slots=True)
class LabelSource:
    """A file of texts with two labels.

    Attributes:
        criteria: what the two labels are called.
        trainable: whether the file's other rows may be trained on, so that its test rows alone are measured.
    """

    name: str
    file: str
    criteria: tuple[str, str]
    read: ReadLabels
    trainable: bool = False


def labels_at(first: str, second: str) -> ReadLabels:
    """Return a reader of two labels that stand under keys of their own, such as ``labels.category``."""

    def read(row: LabelledRow) -> tuple[str, str]:
        return row.get(first, str), row.get(second, str)

    return read


def load_texts(folder: Path, source: LabelSource) -> list[LabelledText]:
    """Return the distinct texts of a source with their labels, in file order.

    A row without exactly one label of each kind is passed over, and so is a text that stands there with different
    labels.

    Raises:
        InputError: the file cannot be used, a row lacks a key, or either criterion has fewer than two labels.
    """
    rows = read_rows(folder, source.file)
    rows = held_out(rows) if source.trainable else rows
    by_text: dict[str, set[tuple[str, str]]] = {}
    for row in rows:
        text, labels = row.get("text", str), source.read(row)
        if labels is not None:
            by_text.setdefault(text, set()).add(labels)
    texts = [LabelledText(text, next(iter(labels))) for text, labels in by_text.items() if len(labels) == 1]
    for place, criterion in enumerate(source.criteria):
        if len({text.labels[place] for text in texts}) < 2:
            raise InputError(
                f"{rows[0].file}: fewer than two kinds of {criterion} are left among its {len(rows)} rows.",
                hint="A criterion needs at least two labels, each with texts that have one label of each kind.",
            )
    return texts


def balanced_sample(texts: Sequence[LabelledText], limit: int, *, seed: int) -> list[LabelledText]:
    """Return at most ``limit`` texts, as evenly as they allow over all pairs of labels, in their given order.

    Even cells keep the labels nearly independent: in a balanced corpus neither label tells anything of the other. A
    smaller limit gives a subset of what a larger one gives.
    """
    cells: dict[tuple[str, str], list[int]] = {}
    for position in np.random.default_rng(seed).permutation(len(texts)).tolist():
        cells.setdefault(texts[position].labels, []).append(position)
    turns = zip_longest(*(cells[labels] for labels in sorted(cells)))
    chosen = [position for position in chain.from_iterable(turns) if position is not None][:limit]
    return [texts[position] for position in sorted(chosen)]


def _aspect_and_polarity(row: LabelledRow) -> tuple[str, str] | None:
    """Return the kind of thing a sentence is about (``food``) and its polarity, where all its aspects agree in both."""
    kinds = {aspect.partition("#")[0].lower() for aspect in _of_aspects(row, "aspect")}
    return _agreed(kinds, set(_of_aspects(row, "polarity")))


def _product_and_polarity(row: LabelledRow) -> tuple[str, str] | None:
    """Return the product a sentence is about and its polarity, where all its aspects agree in that."""
    return _agreed({row.get("labels.product", str)}, set(_of_aspects(row, "polarity")))


def _agreed(first: set[str], second: set[str]) -> tuple[str, str] | None:
    return (first.pop(), second.pop()) if len(first) == len(second) == 1 else None


def _of_aspects(row: LabelledRow, key: str) -> Iterator[str]:
    """Yield what stands under a key of every aspect of a row; a row may have none."""
    for number, aspect in enumerate(row.get("aspects", list), start=1):
        value = aspect.get(key) if isinstance(aspect, Mapping) else None
        if not isinstance(value, str) or not value.strip():
            raise row.problem(f"aspect {number} has no {key!r}")
        yield value


LABELLED = {
    source.name: source
    for source in (
        LabelSource("restaurants", DataFile.RESTAURANTS, ("aspect", "polarity"), _aspect_and_polarity),
        LabelSource(
            "reviews",
            DataFile.REVIEWS,
            ("category", "polarity"),
            labels_at("labels.category", "labels.polarity"),
            trainable=True,
        ),
        LabelSource("products", DataFile.PRODUCTS, ("product", "polarity"), _product_and_polarity, trainable=True),
    )
}


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
        if all(len(members) for members in candidates):
            anchors.append(anchor)
            rows.append([generator.choice(members, count) for members in candidates])
    if not anchors:
        raise InputError(
            f"{what}: no text has partners that share one of its labels and not the other.",
            hint="Each label needs texts under two labels of the other kind; a small --limit leaves too few.",
        )
    return Partners(kinds, np.array(anchors), np.array(rows).transpose(1, 0, 2))
