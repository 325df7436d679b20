"""A verdict with what it rests on, for somebody who asks, and what labelled pairs of texts say of the question."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from retriever.core.errors import IndexLockedError, UsageError
from retriever.core.protocols import Encoder
from retriever.core.results import SCHEMA_VERSION, OnIndexing
from retriever.core.verdicts import Level, Verdict
from retriever.index.completing import complete_with
from retriever.index.opened import Opened
from retriever.index.verdicts.judging import LEAST_TEXTS, sampled
from retriever.index.verdicts.measured import MEASURED
from retriever.index.verdicts.stored import Judgement, stored_judgement

FOLLOWED_AUC = 0.75
WEAK_AUC = 0.65
LOST_AUC = 0.05
"""Thresholds where pairs are given, set on 24 diagnoses of 40 labelled reviews with 120 pairs each.

FOLLOWED_AUC, WEAK_AUC: the chance that a pair which is the same under the question has a higher cosine than one which
is not; 0.5 is guessing.
LOST_AUC: a question under which this chance is lower than without it by more than that is not followed.
"""


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two texts, and whether they are the same under the instruction."""

    a: str
    b: str
    same: bool


@dataclass(frozen=True, slots=True)
class PairAccuracy:
    """Figures of how well cosines tell pairs that are the same from pairs that are not.

    Attributes:
        same: how many of them are the same.
        auc: area under the ROC curve.
        accuracy: balanced accuracy at the best threshold.
        threshold: that cosine.
        base_auc: the area without the instruction.
    """

    pairs: int
    same: int
    auc: float
    accuracy: float
    threshold: float
    base_auc: float

    @property
    def level(self) -> Level:
        """Whether the question is followed, as far as the pairs say."""
        if self.lost or self.auc < WEAK_AUC:
            return "not followed"
        return "followed" if self.auc >= FOLLOWED_AUC else "unclear"

    @property
    def lost(self) -> bool:
        """Whether pairs are told apart better without the instruction."""
        return self.base_auc - self.auc > LOST_AUC


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A verdict with what it rests on.

    Attributes:
        verdict: as it is stored, whatever pairs say.
        features: what it was made of, by name (`features.features_of`).
        pairs: what labelled pairs say; None where none were given.
    """

    verdict: Verdict
    features: Mapping[str, float]
    pairs: PairAccuracy | None = None

    @property
    def level(self) -> Level:
        """The verdict's level, or what pairs say where there are any."""
        return self.verdict.level if self.pairs is None else self.pairs.level

    @property
    def told(self) -> Verdict:
        """The verdict at the level that pairs give where there are any."""
        return self.verdict if self.pairs is None else replace(self.verdict, level=self.level, another_question=False)

    @property
    def by_chance(self) -> bool:
        """Whether the verdict is what its chance is called; else the answers do not allow that."""
        return self.verdict.level == MEASURED.level(self.verdict.chance)

    @property
    def sentence(self) -> str:
        """The verdict in a sentence or two, with what it rests on."""
        said = self.told.sentence
        if self.pairs is None:
            if not self.by_chance:
                return f"{said} (The answers group the texts by their topics.)"
            least = f"followed from {MEASURED.followed:.0%}, not followed up to {MEASURED.not_followed:.0%}"
            return f"{said} ({self.verdict.chance:.0%} likely that it does; {least}.)"
        same = f"A pair that is the same is closer than one that is not in {self.pairs.auc:.0%} of cases"
        if self.pairs.lost:
            return f"{said} ({same}, and without the question in {self.pairs.base_auc:.0%}.)"
        return f"{said} ({same}; followed from {FOLLOWED_AUC:.0%}, unclear from {WEAK_AUC:.0%}.)"

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object, rounded to four decimals."""
        verdict = self.verdict.to_json()
        return {
            "schema_version": SCHEMA_VERSION,
            "level": self.level,
            "verdict": self.sentence,
            "thresholds": {
                "followed": MEASURED.followed,
                "not_followed": MEASURED.not_followed,
                "followed_auc": FOLLOWED_AUC,
                "weak_auc": WEAK_AUC,
                "lost_auc": LOST_AUC,
            },
            **{key: verdict[key] for key in ("instruction", "chance", "measured", "texts")},
            "words": verdict["answers"],
            "features": _rounded(self.features),
            "pairs": None if self.pairs is None else _rounded(asdict(self.pairs)),
        }


def diagnose(
    opened: Opened, instruction: str, pairs: Sequence[TextPair] = (), *, progress: OnIndexing | None = None
) -> Diagnosis:
    """Return the verdict on a question with what it rests on, as `Teaching.diagnose` does."""
    question = instruction.strip()
    if not question:
        raise UsageError("The instruction is empty.", hint="Say what to look at with --instruction.")
    judged = _stored(opened, question) or _judged(opened, question, progress)
    accuracy = pair_accuracy(opened.sources.encoders.question, pairs, question) if pairs else None
    return Diagnosis(judged.verdict, judged.features, accuracy)


def pair_accuracy(encoder: Encoder, pairs: Sequence[TextPair], instruction: str) -> PairAccuracy:
    """Measure how well cosines under an instruction tell pairs that are the same from others.

    Raises:
        UsageError: the pairs are all the same, or none is.
    """
    from sklearn.metrics import roc_auc_score, roc_curve

    same = np.array([pair.same for pair in pairs])
    if same.all() or not same.any():
        raise UsageError(
            "The pairs are all of one kind.", hint="Give pairs that are the same under the instruction and others."
        )
    texts = [text for pair in pairs for text in (pair.a, pair.b)]
    view, base = (rows.reshape(len(pairs), 2, -1) for rows in encoder.encode_many(texts, [instruction, ""]))
    cosines = (view[:, 0] * view[:, 1]).sum(axis=1)
    wrong, right, thresholds = roc_curve(same, cosines, drop_intermediate=False)
    best = int(np.argmax(right - wrong))
    return PairAccuracy(
        pairs=len(pairs),
        same=int(same.sum()),
        auc=float(roc_auc_score(same, cosines)),
        accuracy=float((1 + right[best] - wrong[best]) / 2),
        threshold=float(min(thresholds[best], 1.0)),
        base_auc=float(roc_auc_score(same, (base[:, 0] * base[:, 1]).sum(axis=1))),
    )


def _stored(opened: Opened, instruction: str) -> Judgement | None:
    view = opened.sources.view(opened.sources.read(instruction))
    return None if view is None else stored_judgement(opened.store, view.view_id)


def _judged(opened: Opened, instruction: str, progress: OnIndexing | None) -> Judgement:
    """Read a sample of the texts where that is lacking, and judge the question by it."""
    store, served = opened.store, opened.sources.of(instruction)
    if served.in_words:
        raise UsageError(
            f"{instruction.strip()!r} is answered in words ({served.name}); a diagnosis is of the instruction encoder.",
            hint="Let that serve the question first: --reader default.",
        )
    sample = sampled(store.documents.live_contents())
    if len(sample) < LEAST_TEXTS:
        raise UsageError(
            f"There are {len(sample)} different texts to look at.", hint=f"A diagnosis needs at least {LEAST_TEXTS}."
        )
    view = opened.sources.view(opened.sources.read(instruction))
    unread = sample if view is None else np.asarray(store.vectors.missing(view.view_id, sample))
    complete_with(opened, [instruction], unread, part=True, progress=progress)  # judges it too
    judgement = _stored(opened, instruction)
    if judgement is None:
        raise IndexLockedError("The verdict cannot be stored.", hint="Try again when nothing else writes to the index.")
    return judgement


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {key: round(value, 4) for key, value in values.items()}
