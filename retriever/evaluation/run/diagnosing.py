"""Whether an encoder follows a question on a user's own texts: the verdict, what it rests on, what pairs say."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from retriever.core.errors import InputError, UsageError
from retriever.core.protocols import Encoder
from retriever.core.schema import SCHEMA_VERSION
from retriever.core.types import JSON, BadRow
from retriever.core.verdicts import Level, Verdict
from retriever.corpus.readers import read_documents
from retriever.evaluation.rows import read_rows, sample
from retriever.evaluation.run.view_measures import Shape, Shift, mean_shift, shape, shift
from retriever.index.encoding import OnTexts, describe
from retriever.index.verdicts.judging import TEXTS, judge
from retriever.index.verdicts.measured import MEASURED
from retriever.workspace import Index

DIAGNOSED_TEXTS = TEXTS
LEAST_TEXTS = 8

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
        base_auc: the area in the base view.
    """

    pairs: int
    same: int
    auc: float
    accuracy: float
    threshold: float
    base_auc: float

    @property
    def lost(self) -> bool:
        """Whether pairs are told apart better without the instruction."""
        return self.base_auc - self.auc > LOST_AUC


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of a diagnosis.

    Attributes:
        verdict: by what the model makes of the texts, whatever pairs say.
        encoder: its name, fingerprint and settings.
        features: what the verdict was made of, by name (`index.verdicts.arithmetic`).
        base: shift against no question.
        paraphrase: shift against the question in other words; small where its meaning counts.
        others: mean shift against other questions; large where the question is read.
        negated: shift against the question turned around.
        view: shape under the question.
        base_view: shape under none.
    """

    verdict: Verdict
    encoder: Mapping[str, JSON]
    features: Mapping[str, float]
    base: Shift
    paraphrase: Shift
    others: Shift
    negated: Shift
    view: Shape
    base_view: Shape
    pairs: PairAccuracy | None = None

    @property
    def level(self) -> Level:
        """The verdict's level, or what pairs say where there are any."""
        if self.pairs is None:
            return self.verdict.level
        if self.pairs.lost:
            return "hardly"
        return "followed" if self.pairs.auc >= FOLLOWED_AUC else "unclear" if self.pairs.auc >= WEAK_AUC else "hardly"

    @property
    def sentence(self) -> str:
        """The verdict in a sentence or two, with what it rests on."""
        said = replace(self.verdict, level=self.level).sentence
        if self.pairs is None:
            least = f"followed from {MEASURED.followed:.0%}, hardly up to {MEASURED.hardly:.0%}"
            return f"{said} ({self.verdict.chance:.0%} likely that it does; {least}.)"
        same = f"A pair that is the same is closer than one that is not in {self.pairs.auc:.0%} of cases"
        if self.pairs.lost:
            return f"{said} ({same}, and without the question in {self.pairs.base_auc:.0%}.)"
        return f"{said} ({same}; followed from {FOLLOWED_AUC:.0%}, unclear from {WEAK_AUC:.0%}.)"

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object, rounded to four decimals."""
        found = _rounded(asdict(self))
        del found["verdict"]
        verdict = self.verdict.to_json()
        thresholds = {
            "followed": MEASURED.followed,
            "hardly": MEASURED.hardly,
            "followed_auc": FOLLOWED_AUC,
            "weak_auc": WEAK_AUC,
            "lost_auc": LOST_AUC,
        }
        return {
            "schema_version": SCHEMA_VERSION,
            "level": self.level,
            "verdict": self.sentence,
            "thresholds": thresholds,
            **{key: verdict[key] for key in ("instruction", "chance", "measured", "texts")},
            "words": verdict["answers"],
            **found,
        }


def diagnose(
    encoder: Encoder,
    texts: Sequence[str],
    instruction: str,
    pairs: Sequence[TextPair] = (),
    *,
    plain: Encoder | None = None,
    on_texts: OnTexts | None = None,
) -> Diagnosis:
    """Judge whether an encoder follows an instruction, and measure what moves under it.

    Args:
        encoder: what is judged.
        texts: a sample of the corpus, of which equal ones count once.
        instruction: the question.
        pairs: texts that are the same under it, or not.
        plain: a reader of texts as they are, which tells what words mean; None where there is none.
        on_texts: told how far the reading is; what it raises ends it.

    Raises:
        UsageError: the instruction is empty or too long, or there are too few texts to compare.
    """
    asked = instruction.strip()
    if not asked:
        raise UsageError("The instruction is empty.", hint="Say what to look at with --instruction.")
    distinct = list(dict.fromkeys(texts))
    if len(distinct) < LEAST_TEXTS:
        raise UsageError(
            f"There are {len(distinct)} different texts to look at.", hint=f"A diagnosis needs at least {LEAST_TEXTS}."
        )
    found = judge(encoder, plain, distinct, asked, on_texts=on_texts)
    heard = found.evidence
    view, base = heard.asked.vectors, heard.unasked.vectors
    return Diagnosis(
        verdict=found.verdict,
        encoder=describe(encoder),
        features=found.features,
        base=shift(view, base),
        paraphrase=shift(view, heard.paraphrase.vectors),
        others=mean_shift(view, [one.vectors for one in heard.references]),
        negated=shift(view, heard.negated.vectors),
        view=shape(view),
        base_view=shape(base),
        pairs=pair_accuracy(encoder, pairs, asked) if pairs else None,
    )


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


def index_texts(index: Index, limit: int, *, seed: int = 0) -> list[str]:
    """Return the texts of a sample of an index's documents, the same ones for a seed."""
    ids = sample(list(index.store.documents.ids()), limit, seed=seed)
    return [document.text for document in index.store.documents.get(ids).values()]


def corpus_texts(corpus: Path, limit: int, *, seed: int = 0, encoding: str | None = None) -> list[str]:
    """Return the texts of a sample of a corpus file's documents, the same ones for a seed.

    Raises:
        InputError: the file cannot be read, or a row is bad.
    """
    texts = []
    for row in read_documents([str(corpus)], encoding=encoding):
        if isinstance(row, BadRow):
            raise InputError(f"{row.file}, row {row.line}: {row.reason}", hint="Mend or remove the row.")
        texts.append(row.text)
    return sample(texts, limit, seed=seed)


def read_pairs(file: Path) -> list[TextPair]:
    """Return the pairs of a JSONL file, rows of ``a``, ``b`` and ``same``.

    Raises:
        InputError: the file is missing or empty, or a row lacks a key; file and row are named.
    """
    rows = read_rows(file.parent, file.name)
    return [TextPair(row.get("a", str), row.get("b", str), row.get("same", bool)) for row in rows]


def _rounded(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return round(value, 4) if isinstance(value, float) else value
