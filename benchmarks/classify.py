"""How well are texts put to categories by the names of these alone?

    python benchmarks/classify.py DATA --vectors FOLDER --output benchmarks/results/classify.json

Texts of test rows with known labels: product reviews by category (DMASTE), sentences on restaurants by the aspects they
speak of (MAMS, several a sentence), customers' questions by intent (BANKING77, ten intents drawn by chance). The names
of the categories are the labels', with blanks for underscores. Compared are

    retriever         `retriever classify`, under a question about the labels
    MiniLM            the nearest name by all-MiniLM-L6-v2, which reads text and name as they are
    nearest cluster   k-means over the view into as many clusters as there are names; a cluster goes to the name that is
                      nearest to its centroid

by accuracy and macro F1; of texts with several labels the nearest name counts as right where it is one of them, and F1
is that of the sets (`several`). The floor below which a text belongs to none of the categories is judged by leaving out
each name in turn: its texts should go to none, the others should not. Vectors are kept in FOLDER, so that another
analysis takes seconds. The model was trained on other rows of these files (its card has them), under other wordings.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import write
from numpy.typing import NDArray
from sklearn.metrics import f1_score

from retriever import load_encoder
from retriever.clusters.arithmetic.kmeans import spherical_kmeans
from retriever.clusters.categories import Category
from retriever.clusters.classifying import ANSWERED, FLOOR, GAP, ClassifyRequest, chosen, classify
from retriever.clusters.clustering import Material
from retriever.core.protocols import Encoder
from retriever.core.similarity import normalise
from retriever.core.types import Document
from retriever.evaluation.files import INTENTS, MAMS, REVIEWS
from retriever.evaluation.rows import LabelledRow, held_out, read_rows, sample

TEXTS, INTENT_COUNT, WORDS = 300, 10, 5


@dataclass(frozen=True, slots=True)
class Labelled:
    """Texts, the labels of each, and the question that the labels answer."""

    name: str
    instruction: str
    texts: Sequence[str]
    labels: Sequence[Sequence[str]]

    @property
    def names(self) -> list[str]:
        """The different labels, ascending."""
        return sorted({one for labels in self.labels for one in labels})

    @property
    def truth(self) -> NDArray[np.bool_]:
        """Which text has which label, (n, k)."""
        return np.array([[name in labels for name in self.names] for labels in self.labels])


@dataclass(frozen=True, slots=True)
class Vectors:
    """What is read of a set: under its question with the words answered, and as it is.

    Attributes:
        texts: (n, dim) under the question.
        names: (k, dim) the same of the names.
        plain_texts: (n, d) by MiniLM.
        plain_names: (k, d).
        words: of every text.
        plain_words: by the answered words of a text joined with blanks, MiniLM's vector of them.
    """

    texts: NDArray[np.float32]
    names: NDArray[np.float32]
    plain_texts: NDArray[np.float32]
    plain_names: NDArray[np.float32]
    words: Sequence[Sequence[str]]
    plain_words: dict[str, NDArray[np.float32]]


def main() -> None:
    """Parse the options, read what is not kept yet, measure every set, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--encoder", default="default")
    parser.add_argument("--texts", type=int, default=TEXTS)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    options.vectors.mkdir(parents=True, exist_ok=True)
    encoder, plain = load_encoder(options.encoder), load_encoder("minilm")
    found = {}
    for one in sets(options.data, options.texts):
        vectors = kept(options.vectors, one, encoder, plain)
        found[one.name] = measured(one, vectors)
    write(
        "classify",
        options,
        {
            "fingerprint": encoder.fingerprint,
            "plain": plain.fingerprint,
            "settings": {"answered": ANSWERED, "floor": FLOOR, "gap": GAP},
            "sets": found,
        },
    )


def sets(data: Path, count: int) -> list[Labelled]:
    """Return the sets, of test rows alone."""
    reviews = sample(held_out(read_rows(data, REVIEWS)), count, seed=0)
    sentences = sample(held_out(read_rows(data, MAMS)), count, seed=0)
    asked = held_out(read_rows(data, INTENTS))
    intents = sorted({one.get("labels.intent", str) for one in asked})
    drawn = {intents[row] for row in np.random.default_rng(0).permutation(len(intents))[:INTENT_COUNT]}
    asked = sample([one for one in asked if one.get("labels.intent", str) in drawn], count, seed=0)
    return [
        _labelled("DMASTE categories", "What kind of product is this review about?", reviews, "labels.category"),
        Labelled(
            "MAMS aspects",
            "Which aspects of the restaurant is the sentence about?",
            [one.get("text", str) for one in sentences],
            [sorted({aspect["aspect"] for aspect in one.get("aspects", list)}) for one in sentences],
        ),
        _labelled("BANKING77 intents", "What does the customer want?", asked, "labels.intent"),
    ]


def _labelled(name: str, instruction: str, rows: Sequence[LabelledRow], key: str) -> Labelled:
    labels = [[one.get(key, str).replace("_", " ").rstrip("?").lower()] for one in rows]
    return Labelled(name, instruction, [one.get("text", str) for one in rows], labels)


def kept(folder: Path, given: Labelled, encoder: Encoder, plain: Encoder) -> Vectors:
    """Return the vectors of a set, read now or kept before."""
    path = folder / f"{given.name.replace(' ', '-')}-{len(given.texts)}-{encoder.fingerprint[:12]}.npz"
    if not path.exists():
        ((read,), (named,)) = (
            encoder.encode_views(texts, [given.instruction], words=WORDS) for texts in (given.texts, given.names)
        )
        answers = sorted({" ".join(one) for one in read.words if one})
        np.savez_compressed(
            path,
            texts=read.embeddings,
            names=named.embeddings,
            plain_texts=plain.encode(given.texts),
            plain_names=plain.encode(given.names),
            plain_words=plain.encode(answers) if answers else np.zeros((0, plain.dim), np.float32),
            words=json.dumps([list(one) for one in read.words]),
            answers=json.dumps(answers),
        )
    with np.load(path, allow_pickle=False) as stored:
        answers = json.loads(str(stored["answers"]))
        return Vectors(
            *(stored[key] for key in ("texts", "names", "plain_texts", "plain_names")),
            words=json.loads(str(stored["words"])),
            plain_words=dict(zip(answers, stored["plain_words"], strict=True)),
        )


def measured(given: Labelled, vectors: Vectors) -> dict[str, Any]:
    """Return the figures of a set."""
    truth, names = given.truth, given.names
    scores = scored(given, vectors)
    ways = {"retriever": scores, "MiniLM": vectors.plain_texts @ vectors.plain_names.T}
    several = truth.sum(axis=1).max() > 1
    found: dict[str, Any] = {"texts": len(truth), "categories": len(names), "labels a text": float(truth.sum(1).mean())}
    for way, one in ways.items():
        found[way] = judged(one.argmax(axis=1), truth)
    found["nearest cluster"] = judged(nearest_cluster(vectors, len(names)), truth)
    if several:
        found["several"] = f1_of_sets(chosen(scores, several=True), truth)
    found["none"] = none_judged(given, vectors)
    return found


def scored(given: Labelled, vectors: Vectors, left_out: int | None = None) -> NDArray[np.float32]:
    """Return the scores (n, k) of `retriever classify`, with one name left out where that is asked for."""
    names = [one for row, one in enumerate(given.names) if row != left_out]
    rows = [row for row in range(len(given.names)) if row != left_out]
    plain = {one: vectors.plain_names[row] for row, one in zip(rows, names, strict=True)} | vectors.plain_words

    def read(texts: Sequence[str]) -> NDArray[np.float32]:
        zero = np.zeros(vectors.plain_texts.shape[1], np.float32)
        return np.array([plain.get(one, zero) for one in texts])

    documents = [Document(f"{row:04}", text) for row, text in enumerate(given.texts)]
    material = Material(documents, vectors.texts, vectors.words)
    request = ClassifyRequest(given.instruction, [Category(one) for one in names])
    return classify(material, 0, request, vectors.names[rows], read).scores


def judged(labels: NDArray[np.int64], truth: NDArray[np.bool_]) -> dict[str, float]:
    """Return accuracy and macro F1 in percent; of several labels the one that was chosen counts, else the first."""
    right = truth[np.arange(len(labels)), labels]
    wanted = np.where(right, labels, truth.argmax(axis=1))
    macro = f1_score(wanted, labels, labels=range(truth.shape[1]), average="macro", zero_division=0)
    return {"accuracy": round(100 * float(right.mean()), 1), "macro F1": round(100 * float(macro), 1)}


def f1_of_sets(places: Sequence[Sequence[int]], truth: NDArray[np.bool_]) -> dict[str, float]:
    """Return micro and macro F1 in percent of sets of categories."""
    found = np.array([[number in one for number in range(truth.shape[1])] for one in places])
    kinds: dict[str, Callable[[], float]] = {
        f"{kind} F1": lambda kind=kind: f1_score(truth, found, average=kind, zero_division=0)
        for kind in ("micro", "macro")
    }
    return {kind: round(100 * float(work()), 1) for kind, work in kinds.items()}


def nearest_cluster(vectors: Vectors, k: int) -> NDArray[np.int64]:
    """Return the name of every text's cluster: that whose vector is nearest to the centroid."""
    found = spherical_kmeans(vectors.texts, k)
    centroids = normalise(found.centroids - vectors.texts.mean(axis=0))
    names = normalise(vectors.names - vectors.names.mean(axis=0))
    return (centroids @ names.T).argmax(axis=1)[found.labels]


def none_judged(given: Labelled, vectors: Vectors) -> dict[str, float]:
    """Return, with each name left out in turn, the shares in percent that go to none: of its texts, and of others."""
    truth, gone, stayed = given.truth, [], []
    for number in range(len(given.names)):
        none = np.array([one == (-1,) for one in chosen(scored(given, vectors, number), several=False)])
        alone = truth[:, number] & (truth.sum(axis=1) == 1)
        gone.append(none[alone])
        stayed.append(none[~truth[:, number]])
    without, others = np.concatenate(gone), np.concatenate(stayed)
    return {
        "of texts whose category is missing": round(100 * float(without.mean()), 1) if len(without) else 0.0,
        "of texts whose category is there": round(100 * float(others.mean()), 1),
    }


if __name__ == "__main__":
    main()
