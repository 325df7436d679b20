"""Reading a sample of a corpus for a question that a language model answers, and what the sample says of all texts.

At least `sampling.UNIFORM` texts are drawn evenly; the rest of a budget goes where the answer is least sure, once some
are read. Texts that searches had read count as they are. docs/decisions/sampled-answers.md has the mathematics.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.estimates import Estimate, share
from retriever.clusters.arithmetic.prediction import UNREAD, Prediction, agreement, outcome, predict
from retriever.clusters.arithmetic.sampling import UNIFORM, Sample, draw, weigh
from retriever.clusters.chosen import Read
from retriever.core.errors import UsageError
from retriever.core.types import Embeddings, Ids
from retriever.index.opened import Opened
from retriever.index.sources.catalog import Listed
from retriever.store.answers import GIVEN, DrawnText

Grouping = Callable[[Embeddings], NDArray[np.int64]]
"""Puts vectors (n, dim) of read texts into groups: (n,) numbers from 0."""

OnRead = Callable[[Ids], None]
"""Reads the texts of some contents; those that cannot be read stay without a vector."""

FEW_GROUPS = 8
"""Groups of the first answers, between which other texts are unsure."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """How much of the texts was read, and what that says of all of them.

    Attributes:
        reader: name of who read.
        texts: how many there are.
        read: how many of them were read.
        drawn: how many of those were drawn at random.
        agreement: the share of texts that the answer predicted from stored vectors is right for, estimated on texts
            that the model did not see; None where too few were read to tell.
        commonest: the share of the commonest answer, for comparison.
        predicted: whether predictions are used: they are surely better than the commonest answer.
        shares: by cluster, its share of all texts.
        evenly: ids of the documents whose texts were drawn with equal chances and read. Not in the JSON object.
    """

    reader: str
    texts: int
    read: int
    drawn: int
    agreement: float | None = None
    commonest: float | None = None
    predicted: bool = False
    shares: Mapping[int, Estimate] = field(default_factory=dict)
    evenly: frozenset[str] = frozenset()

    @property
    def whole(self) -> bool:
        """Whether all texts were read."""
        return self.read == self.texts

    @property
    def sentence(self) -> str:
        """What was read by whom, and whether the rest was predicted."""
        by = "handed in" if self.reader == GIVEN else f"read by {self.reader}"
        if self.whole:
            return f"All {self.texts} texts were {by}."
        rest = "shares of all texts are estimated from these"
        if self.predicted and self.agreement is not None:
            rest += f" and from predictions that are right for {self.agreement:.0%}"
        return f"{self.read} of {self.texts} texts were {by}, {self.drawn} of them drawn at random; {rest}."

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {
            "reader": self.reader,
            "texts": self.texts,
            "read": self.read,
            "drawn": self.drawn,
            "predicted": self.predicted,
            "agreement": _rounded(self.agreement),
            "commonest": _rounded(self.commonest),
            "shares": {str(number): estimate_json(estimate) for number, estimate in self.shares.items()},
        }


def check_read(read: Read) -> None:
    """Refuse a budget that reads nothing.

    Raises:
        UsageError: it is below 1, and not ``all``.
    """
    if read != "all" and read < 1:
        raise UsageError(f"{read} texts are to be read.", hint="Give a number from 1, or all.")


def read_sample(opened: Opened, shown: Listed, population: Ids, read: Read, group: Grouping, on_read: OnRead) -> None:
    """Read a sample of some texts for a view; what was read before counts, and a larger budget adds to it.

    Args:
        opened: the index.
        shown: the view, of answers.
        population: the contents that the sample is to speak of, ascending.
        read: how many of them are to be read.
        group: puts the answers of read texts into groups, between which texts are unsure.
        on_read: reads texts.
    """
    store, view_id = opened.store, shown.view.view_id
    if read == "all":
        on_read(_unread(opened, view_id, population))
        return
    for first in (True, False):
        sample, held = stored_sample(opened, view_id, population), _held(opened, view_id, population)
        drawn = int(((sample.rounds > 0) & (sample.chances < 1)).sum())
        size = min(UNIFORM, read) - drawn if first else min(read, len(population)) - int(held.sum())
        if size > 0:
            unsure = None if first else _unsure(opened, view_id, population, held, group)
            grown = draw(sample, size, known=held, unsure=unsure)
            rows = np.flatnonzero((grown.rounds > 0) & (sample.rounds == 0))
            texts = [DrawnText(int(population[row]), int(grown.rounds[row]), float(grown.chances[row])) for row in rows]
            store.samples.put(view_id, _name(population), texts)
            sample = grown
        on_read(population[(sample.rounds > 0) & ~held])  # what was drawn before and not read, too


def sampled(opened: Opened, shown: Listed, population: Ids, labels: Mapping[int, int], clusters: int) -> Sampled:
    """Return what the texts that were read say of all.

    Args:
        opened: the index.
        shown: the view, of answers.
        population: the contents of all texts, ascending.
        labels: the cluster of each text that was read, by content.
        clusters: how many there are.
    """
    sample = stored_sample(opened, shown.view.view_id, population)
    answers = np.array([labels.get(content, UNREAD) for content in population.tolist()], dtype=np.int64)
    read = answers != UNREAD
    if read.all():
        sample = Sample(np.ones(len(population), dtype=np.int64), np.ones(len(population)))
    weights = weigh(sample, read)
    prediction = None if read.all() else _predicted(opened, population, answers, clusters)
    judged = None if prediction is None else agreement(prediction, answers, weights)
    used = prediction if judged is not None and judged.better else None
    shares = {number: share(outcome(answers, number, used), weights) for number in range(clusters)}
    return Sampled(
        opened.sources.encoder_name(shown),
        len(population),
        int(read.sum()),
        int(weights.random.sum()),
        None if judged is None else _value(judged.predicted),
        None if judged is None else _value(judged.commonest),
        used is not None,
        shares,
    )


def stored_sample(opened: Opened, view_id: int, population: Ids) -> Sample:
    """Return the sample that was drawn for a view from some contents, ascending."""
    rounds, chances = np.zeros(len(population), dtype=np.int64), np.zeros(len(population))
    drawn = opened.store.samples.get(view_id, _name(population))
    rows = np.searchsorted(population, np.array([text.content_id for text in drawn], dtype=np.int64))
    for row, text in zip(rows.tolist(), drawn, strict=True):
        rounds[row], chances[row] = text.round, text.chance
    return Sample(rounds, chances)


def drawn_evenly(opened: Opened, shown: Listed, population: Ids) -> Ids:
    """Return the contents that the first round drew, with equal chances."""
    sample = stored_sample(opened, shown.view.view_id, population)
    return np.asarray(population[(sample.rounds == 1) & (sample.chances < 1)])


def estimate_json(estimate: Estimate) -> dict[str, Any]:
    """Return the documented JSON object of an estimate."""
    interval = None if estimate.interval is None else estimate.interval.to_json()
    return {"share": interval, "cases": estimate.cases, "read": estimate.read}


def _unsure(
    opened: Opened, view_id: int, population: Ids, held: NDArray[np.bool_], group: Grouping
) -> NDArray[np.float64] | None:
    """Return how unsure the group of each text is, given those that are read; None where nothing can be predicted."""
    if not held.any():
        return None
    stored = opened.store.vectors.get(view_id, population[held])
    answers = np.full(len(population), UNREAD, dtype=np.int64)
    answers[np.searchsorted(population, stored.content_ids)] = group(stored.embeddings)
    classes = int(answers.max(initial=0)) + 1
    prediction = _predicted(opened, population, answers, classes)
    return None if prediction is None else prediction.unsure


def _predicted(opened: Opened, population: Ids, answers: NDArray[np.int64], classes: int) -> Prediction | None:
    """Predict answers from the vectors of the views that have every text, the base view's first."""
    return predict(_blocks(opened, population), answers, classes)


def _blocks(opened: Opened, population: Ids) -> Sequence[Embeddings]:
    base = opened.sources.view(opened.sources.base)
    views = [] if base is None else [base.view_id]
    views += [listed.view.view_id for listed in opened.sources.listed() if listed.row is None and listed.instruction]
    blocks = (opened.store.vectors.get(view_id, population) for view_id in views)
    return [block.embeddings for block in blocks if len(block.content_ids) == len(population)]


def _held(opened: Opened, view_id: int, population: Ids) -> NDArray[np.bool_]:
    return np.isin(population, opened.store.vectors.held(view_id))


def _unread(opened: Opened, view_id: int, population: Ids) -> Ids:
    return np.asarray(population[~_held(opened, view_id, population)])


def _name(population: Ids) -> bytes:
    return sha256(population.tobytes()).digest()


def _value(estimate: Estimate) -> float | None:
    return None if estimate.interval is None else estimate.interval.value


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
