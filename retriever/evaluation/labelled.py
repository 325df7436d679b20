"""Texts with two labels each, such as what a review is about and how its writer feels.

A source says where its labels are in a row. `LABELLED` lists the sources of the suites; any other corpus with two
labels becomes one with `labels_at`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import TypeAlias

import numpy as np

from retriever.core.errors import InputError
from retriever.evaluation import files
from retriever.evaluation.rows import LabelledRow, held_out, read_rows

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
        name: of the source, in tables and in the wordings.
        criteria: what the two labels are called.
        read: finds them in a row.
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
    found: dict[str, set[tuple[str, str]]] = {}
    for row in rows:
        text, labels = row.get("text", str), source.read(row)
        if labels is not None:
            found.setdefault(text, set()).add(labels)
    texts = [LabelledText(text, next(iter(labels))) for text, labels in found.items() if len(labels) == 1]
    for place, criterion in enumerate(source.criteria):
        if len({one.labels[place] for one in texts}) < 2:
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
        LabelSource("restaurants", files.RESTAURANTS, ("aspect", "polarity"), _aspect_and_polarity),
        LabelSource(
            "reviews",
            files.REVIEWS,
            ("category", "polarity"),
            labels_at("labels.category", "labels.polarity"),
            trainable=True,
        ),
        LabelSource("products", files.PRODUCTS, ("product", "polarity"), _product_and_polarity, trainable=True),
    )
}
