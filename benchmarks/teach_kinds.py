"""The labelled texts by which `teach.py` measures teaching, each kind read once and kept on disk."""

import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from retriever.core.paths import cache_dir
from retriever.core.protocols import Encoder
from retriever.core.types import Embeddings
from retriever.evaluation.rows import held_out, read_rows, sample

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "recipes"))

from derived import DERIVED
from label_types import load_label_types

ANSWERS, PER_ANSWER, LONGEST = 4, 85, 400
LABELLED = {
    "dialogue_speaker": "service_dialogues",
    "happy_agency": "happy_moments",
    "happy_social": "happy_moments",
    "situation_type": "situation",
    "main_tense": "web_sentences",
    "web_genre": "web_sentences",
    "event_responsibility": "event_appraisal",
    "event_control": "event_appraisal",
    "issue_type": "software_issues",
    "requirement_kind": "software_requirements",
    "short_text_form": "short_forms",
    "media_bias": "media_bias",
    "complaint": "complaints",
    "technical_debt": "code_debt",
    "satire_news": "odd_headlines",
    "sentence_type": "gum",
    "answer_type": "question_types",
    "politeness": "talk_page_requests",
    "email_request": "email_requests",
    "abstract_role": "abstract_roles",
}
"""Kinds of the second folder and their files; sentences and messages."""
REVIEWS = {"review_category": "labels.category", "review_polarity": "labels.polarity", "star_rating": "labels.stars"}
CODED = ("money", "family_member", "tone")
"""Kinds that code reads off reviews and comments."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A question with labelled texts, as many of each answer as there are, up to a limit.

    Attributes:
        name: of the question.
        question: as it is asked.
        texts: different ones, in a random order.
        labels: the answer of each.
    """

    name: str
    question: str
    texts: Sequence[str]
    labels: Sequence[str]

    @property
    def answers(self) -> list[str]:
        """The answers there are, ascending."""
        return sorted(set(self.labels))


@dataclass(frozen=True, slots=True)
class Read:
    """The vectors of a kind.

    Attributes:
        labels: (n,) number of each text's answer.
        asked: (n, d) by the question reader under the question.
        unasked: (n, d) by the question reader under its default instruction.
        plain: (n, e) by the plain reader.
        names: (k, d) the answers' own names under the question.
        plain_names: (k, e) and by the plain reader.
        seconds: that reading the texts under the question took.
    """

    labels: NDArray[np.int64]
    asked: Embeddings
    unasked: Embeddings
    plain: Embeddings
    names: Embeddings
    plain_names: Embeddings


def kinds(data: Path, data2: Path) -> Iterator[Kind]:
    """Yield the kinds; of each answer the same number of texts, as far as they reach."""
    asked = {one["name"]: one for one in json.loads((data2 / "kinds.json").read_text(encoding="utf-8"))["kinds"]}
    for name, file in LABELLED.items():
        rows = read_rows(data2, f"{file}.jsonl")
        labels = {row.get("text", str): row.values["labels"].get(name) for row in rows}
        yield _kind(name, asked[name]["instructions"][0]["text"], labels)
    types = load_label_types()
    rows = sample(held_out(read_rows(data, "reviews_dmaste.jsonl")), 6000, seed=0)
    for name, field in REVIEWS.items():
        found = {row.get("text", str): str(row.get(field, float if name == "star_rating" else str)) for row in rows}
        yield _kind(name, (types[name].wordings or types[name].held_out)[0], found)
    texts = [row.get("text", str) for row in rows]
    texts += [row.get("text", str) for row in read_rows(data, "goemotions.jsonl") if row.split == "test"]
    for one in DERIVED:
        if one.name in CODED:
            yield _kind(one.name, one.wordings[0], {text: one.rule(text) for text in texts})


def read(kind: Kind, question: Encoder, plain: Encoder) -> Read:
    """Return the vectors of a kind, from the user's cache or read now."""
    key = hashlib.sha256("\0".join([question.fingerprint, plain.fingerprint, kind.question, *kind.texts]).encode())
    path = cache_dir() / "teach" / f"{kind.name}-{key.hexdigest()[:16]}.npz"
    names = kind.answers
    numbers = np.array([names.index(one) for one in kind.labels])
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unasked, asked = question.encode_many(list(kind.texts), ["", kind.question])
        named = question.encode(names, instruction=kind.question)
        arrays = {"asked": asked, "unasked": unasked, "plain": plain.encode(list(kind.texts)), "names": named}
        draft = path.with_suffix(".draft.npz")
        np.savez(draft, plain_names=plain.encode(names), **arrays)
        draft.rename(path)
    with np.load(path, allow_pickle=False) as stored:
        return Read(numbers, **{name: stored[name] for name in stored.files})


def _kind(name: str, question: str, labels: Mapping[str, str | None]) -> Kind:
    by_label: dict[str, list[str]] = defaultdict(list)
    for text, label in labels.items():
        if label is not None and 8 <= len(text) <= LONGEST:
            by_label[label].append(text)
    chosen = sorted(by_label, key=lambda one: (-len(by_label[one]), one))[:ANSWERS]
    generator = np.random.default_rng(0)
    pairs = []
    for label in chosen:
        kept = generator.permutation(len(by_label[label]))[:PER_ANSWER]
        pairs += [(by_label[label][number], label) for number in kept]
    order = generator.permutation(len(pairs))
    return Kind(name, question, [pairs[one][0] for one in order], [pairs[one][1] for one in order])


def main() -> None:
    """Read the kinds of the two folders named on the command line, or those named behind them."""
    from retriever import load_encoder
    from retriever.index.readers import load_plain

    question, plain = load_encoder("pretrained:default"), load_plain()
    wanted = sys.argv[3:]
    for kind in kinds(Path(sys.argv[1]), Path(sys.argv[2])):
        if wanted and kind.name not in wanted:
            continue
        read(kind, question, plain)
        print(kind.name, kind.question, len(kind.texts), kind.answers, flush=True)


if __name__ == "__main__":
    main()
