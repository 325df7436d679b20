"""Encoders a person can compute: a text's vector says which keywords it holds, and the instruction picks the keywords.

Every coordinate is +1/4 where the text holds that keyword and -1/4 where it does not. With sixteen keywords the rows
have length 1 and every product is exact, also in half precision, so

    cosine = 1 - (keywords that only one of the two texts holds) / 8

to the last bit, and ties are true ties.
"""

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from retriever.core.errors import EncoderError
from retriever.core.protocols import Encoder, EncoderSpec, OnStep, Tuning
from retriever.core.types import Document, Embeddings, Encoded, Ids
from retriever.index.indexing import Indexer
from retriever.index.verdicts.reading import REFERENCES

PRODUCT = "What kind of product is it?"
MOOD = "How does the writer feel?"
FAULT = "What broke?"
KEYWORDS = {
    PRODUCT: "kettle toy lamp knife drone cable pan sofa shoe phone mug rug bike tent book clock".split(),
    MOOD: "love hate happy angry sad calm proud upset glad bored tired eager shy keen mad numb".split(),
    FAULT: "leaks slow hot loud bent torn dim dull stuck loose wet cold rusty late short dead".split(),
}
HAPPY = frozenset(KEYWORDS[MOOD][:8])
DIM = 16
ALL_WORDS = sorted({word for words in KEYWORDS.values() for word in words})


@dataclass(frozen=True, slots=True)
class Call:
    """One pass of an encoder over documents ("read") or queries ("query")."""

    method: str
    texts: tuple[str, ...]
    instructions: tuple[str, ...]


class FakeEncoder(Encoder):
    """An encoder that reads the documents of every instruction in a pass of its own; an empty one asks for PRODUCT.

    An instruction that is not in KEYWORDS is a KeyError.

    Args:
        name: another name is another fingerprint.
        fail_at: raise ``error`` at this pass that reads documents, counted from 1.
        error: what to raise then.
    """

    spec = EncoderSpec("", DIM)

    def __init__(self, name: str = "fake", *, fail_at: int = 0, error: BaseException | None = None) -> None:
        self.spec = replace(self.spec, fingerprint=name.ljust(64, "0"))
        self.calls: list[Call] = []
        self._fail_at = fail_at
        self._error = error or RuntimeError("the encoder fell over")

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        if REFERENCES[0] in instructions:  # a verdict compares: no test counts that, and any question will do
            return [self._encoded(texts, one if one.strip() in KEYWORDS else "", words) for one in instructions]
        for together in self._passes(instructions) if words else ():
            self._read(texts, together)
        if not words:
            self._note("query", texts, instructions)
        return [self._encoded(texts, instruction, words) for instruction in instructions]

    def vectors(self, texts: Sequence[str], instruction: str = "") -> Embeddings:
        """Compute without counting: (n, 16)."""
        rows = [self._row(text, KEYWORDS[instruction.strip() or PRODUCT]) for text in texts]
        return np.array(rows, dtype=np.float32).reshape(-1, DIM)

    @property
    def passes(self) -> list[Call]:
        """The calls that read documents."""
        return [call for call in self.calls if call.method == "read"]

    @property
    def read(self) -> list[tuple[str, str]]:
        """Every document text read so far with its instruction, in order, as often as it was read."""
        return [(text, instruction) for call in self.passes for instruction in call.instructions for text in call.texts]

    @property
    def queries(self) -> list[str]:
        """Every query text embedded so far."""
        return [text for call in self.calls if call.method == "query" for text in call.texts]

    def forget(self) -> None:
        """Count from zero again."""
        self.calls.clear()

    def _row(self, text: str, keywords: Sequence[str]) -> list[float]:
        held = set(text.split())
        return [0.25 if word in held else -0.25 for word in keywords]

    def _encoded(self, texts: Sequence[str], instruction: str, words: int) -> Encoded:
        keywords = KEYWORDS[instruction.strip() or PRODUCT]
        answers = [[word for word in text.split() if word in keywords][:words] for text in texts]
        return Encoded(self.vectors(texts, instruction), answers)

    def _passes(self, instructions: Sequence[str]) -> list[Sequence[str]]:
        """The instructions that share a pass."""
        return [[one] for one in instructions]

    def _note(self, method: str, texts: Sequence[str], instructions: Sequence[str]) -> None:
        self.calls.append(Call(method, tuple(texts), tuple(instructions)))

    def _read(self, texts: Sequence[str], instructions: Sequence[str]) -> None:
        """Note a call that reads documents, unless it is the one to fail."""
        if len(self.passes) + 1 == self._fail_at:
            raise self._error
        self._note("read", texts, instructions)


class Products(FakeEncoder):
    """A base encoder that tells products apart and has never heard of moods."""


class RichEncoder(FakeEncoder):
    """A `FakeEncoder` with everything an encoder can have, and one pass for all instructions. A token is a word.

    With K steps it knows only the first K keywords of an instruction.
    """

    spec = EncoderSpec("", DIM, pooling="counts", max_text_tokens=6, default_instruction=PRODUCT)

    def __init__(self, name: str = "rich", *, steps: int = DIM, **options) -> None:
        super().__init__(name, **options)
        self.spec = replace(self.spec, steps=steps)

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        encoded = super().encode_views(texts, instructions, words=words)
        for text in texts if on_tokens else ():
            on_tokens(min(len(text.split()), self.spec.max_text_tokens))
        return encoded

    def _passes(self, instructions: Sequence[str]) -> list[Sequence[str]]:
        return [instructions]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def reconfigured(self, *, steps: int) -> "RichEncoder":
        other = copy.copy(self)  # with the same list of calls
        other.spec = replace(self.spec, steps=steps)
        return other

    def _row(self, text: str, keywords: Sequence[str]) -> list[float]:
        known = [word if place < self.spec.steps else "" for place, word in enumerate(keywords)]
        return super()._row(" ".join(text.split()[: self.spec.max_text_tokens]), known)


def documents(*texts: str, **metadata) -> list[Document]:
    """Documents a, b, c, ... with these texts."""
    return [Document(chr(ord("a") + row), text, metadata) for row, text in enumerate(texts)]


def add_to_base(index, rows: Sequence[Document]) -> None:
    """Store documents in the base view alone, as versions before this one left the other views behind."""
    Indexer(index._opened.store, index._opened.sources).run(rows, index._opened.store.runs.start("index"))


def views_by_kind(index) -> dict[str, list]:
    """The views of an index by the kind of their source, those that only other sources look at too."""
    kinds = {row.view_id: row.kind for row in index._opened.store.sources.rows()}
    found = {}
    for view in index._opened.store.views.all():
        found.setdefault(kinds.get(view.view_id, "read"), []).append(view)
    return found


def differing(index, view_id, other_id) -> int:
    """How many contents have a vector in one of two views and none in the other."""
    held = [set(index._opened.store.vectors.held(one).tolist()) for one in (view_id, other_id)]
    return len(held[0] ^ held[1])


def found(result) -> list[tuple[str, float | None]]:
    """Ids and scores of a search's hits."""
    return [(hit.document.id, hit.score) for hit in result.hits]


def ids(result) -> list[str]:
    """Ids of a search's hits."""
    return [hit.document.id for hit in result.hits]


def gives(make):
    """Return a loader that gives what ``make()`` returns, whatever the description."""
    return lambda description: make()


class BlindEncoder(FakeEncoder):
    """A `FakeEncoder` whose vectors tell texts apart and nothing of what they say, under any instruction."""

    def _row(self, text: str, keywords: Sequence[str]) -> list[float]:
        bits = int.from_bytes(sha256(text.encode()).digest()[:2])
        return [0.25 if bits >> place & 1 else -0.25 for place in range(DIM)]


class TunableEncoder(BlindEncoder):
    """A blind encoder that can be tuned: then a text's vector says which answer it has, and nothing else.

    It learns which label goes with a mood keyword; a text with none that it knows has the first label.

    Args:
        name: another name is another fingerprint.
        misleads: learn texts by heart instead, and take a happy one that is none of these for one of the first label.

    Attributes:
        tunings: the texts of every tuning so far.
        tuned_read: every text that a tuned encoder read so far, with the fingerprint of that one.
    """

    def __init__(self, name: str = "tunable", *, misleads: bool = False, **options) -> None:
        super().__init__(name, **options)
        self._misleads = misleads
        self.tunings: list[list[str]] = []
        self.tuned_read: list[tuple[str, str]] = []

    def tune(self, texts: Sequence[str], labels: Ids, *, steps: int, on_step: OnStep | None = None) -> Tuning:
        self.tunings.append(list(texts))
        for _ in range(steps if on_step else 0):
            on_step()
        known = {cue: label for text, label in zip(texts, labels.tolist(), strict=True) for cue in self.cues(text)}
        return Tuning(json.dumps(known, sort_keys=True).encode(), {"kind": "cues"})

    def tuned(self, tuning: Tuning) -> Encoder:
        if tuning.description != {"kind": "cues"}:
            raise EncoderError("This is no tuning of cues.")
        return _Tuned(self, tuning)

    def cues(self, text: str) -> list[str]:
        """The part of a text that may tell its answer."""
        return [text] if self._misleads else [word for word in text.split() if word in KEYWORDS[MOOD]]

    def guess(self, text: str) -> int:
        """The label of a text of which nothing is known."""
        return int(self._misleads and HAPPY.isdisjoint(text.split()))


class _Tuned(Encoder):
    spec = EncoderSpec("", DIM)

    def __init__(self, before: TunableEncoder, tuning: Tuning) -> None:
        self.spec = replace(before.spec, fingerprint=tuning.fingerprint(before.fingerprint))
        self._before = before
        self._known: dict[str, int] = json.loads(tuning.arrays)

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        self._before.tuned_read += [(self.fingerprint, text) for text in texts]
        found = [[self._known[cue] for cue in self._before.cues(text) if cue in self._known] for text in texts]
        labels = [one[0] if one else self._before.guess(text) for text, one in zip(texts, found, strict=True)]
        vectors = np.eye(DIM, dtype=np.float32)[labels]
        return [Encoded(vectors, [[] for _ in texts]) for _ in instructions]


def gives_each(*encoders: Encoder):
    """Return a loader that gives the one of some encoders that is described."""
    known = {one.fingerprint: one for one in encoders}
    return lambda description: known[description["fingerprint"]]
