"""The two encoders of an index: one reads texts as they are, the other reads them under an instruction."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Literal

from retriever.core.encoder import Encoder, Tuning
from retriever.core.errors import EncoderError
from retriever.core.types import Encoded
from retriever.index.encoding import Loader, encode_views, load_described, view_key
from retriever.index.status import ReaderDescriptions, reader_descriptions
from retriever.store.database import Store
from retriever.store.views import ViewKey

Source = Callable[[], Encoder]
"""Gives an encoder, loaded by the first call."""


DEFAULT_PLAIN = "minilm"
"""Name of the plain reader of new indexes."""

PlainReader = Encoder | Literal["none"]
"""What fills the base view: an encoder of its own, or the one that follows instructions."""

_SENTENCE_ENCODERS = "st:"  # what their names begin with


def load_plain(name: str = DEFAULT_PLAIN, *, device: str = "auto") -> Encoder:
    """Load a plain reader.

    Args:
        name: a sentence-transformers model: a name of `retriever models list`, a folder, or a hub name.
        device: where to run.

    Raises:
        EncoderError: there is no such model, or it is no sentence-transformers model.
    """
    from retriever.encoders import catalog

    try:
        resolved = catalog.resolve_name(name)
    except EncoderError:
        resolved = f"{_SENTENCE_ENCODERS}{name}"
    if not resolved.startswith(_SENTENCE_ENCODERS):
        raise EncoderError(
            f"{name} cannot be the plain reader: it reads texts under an instruction.",
            hint=f"Name a sentence-transformers model, such as {DEFAULT_PLAIN}, or none.",
        )
    catalog.require_sentence_model(resolved.removeprefix(_SENTENCE_ENCODERS))
    return catalog.load_encoder(resolved, device=device)


def load_readers(
    question: str | None, plain: str | None, *, new: bool, device: str = "auto"
) -> tuple[Encoder | None, "PlainReader | None"]:
    """Load the encoders that somebody named for an index.

    Args:
        question: name of the question reader; None for ``default`` in a new index, else for the one it has.
        plain: name of the plain reader, or ``none``; None for `DEFAULT_PLAIN` in a new index, else for what it has. An
            index whose question reader is a sentence-transformers model needs none besides.
        new: whether the index is new.
        device: where to run.

    Raises:
        EncoderError: there is no such model.
    """
    from retriever.encoders import catalog

    chosen = catalog.load_encoder(question or catalog.DEFAULT, device=device) if question or new else None
    if plain is None and new and chosen is not None:
        plain = "none" if chosen.spec.name.startswith(_SENTENCE_ENCODERS) else DEFAULT_PLAIN
    if plain is None:
        return chosen, None
    if plain == "none":
        return chosen, "none"
    return chosen, load_plain(plain, device=device)


def described_readers(store: Store, load: Loader = load_described) -> "Readers | None":
    """Return the encoders that an index describes; None before it describes one.

    Args:
        store: the index's database.
        load: gives the encoder of a description.
    """
    found = reader_descriptions(store)
    return None if found is None else made(found, load)


def made(descriptions: ReaderDescriptions, load: Loader) -> "Readers":
    """Return the encoders of some descriptions."""
    question, plain = descriptions.question, descriptions.plain
    return Readers(lambda: load(question), None if plain is None else lambda: load(plain))


class Readers:
    """The encoders of an index, each loaded when it is first needed.

    Args:
        question: gives the question reader, which follows instructions.
        plain: gives the plain reader, which fills the base view; None where the question reader does that too, under
            its default instruction.
    """

    def __init__(self, question: Source, plain: Source | None = None) -> None:
        self._question = question
        self._plain = plain
        self._tuned: dict[str, Encoder] = {}  # by the digests of what tuned them

    @classmethod
    def of(cls, question: Encoder, plain: Encoder | None = None) -> "Readers":
        """Return the readers that two loaded encoders are."""
        return cls(lambda: question, None if plain is None else lambda: plain)

    @property
    def two(self) -> bool:
        """Whether the base view has a reader of its own."""
        return self._plain is not None

    @cached_property
    def question(self) -> Encoder:
        """The question reader."""
        return self._question()

    @cached_property
    def base(self) -> Encoder:
        """The reader of the base view."""
        return self.question if self._plain is None else self._plain()

    def reader(self, instruction: str) -> Encoder:
        """Return the encoder that reads under an instruction; the plain reader where that is empty."""
        return self.question if instruction.strip() else self.base

    def tuned_base(self, tuning: Tuning | None) -> Encoder:
        """Return the reader of the base view as examples tuned it, or as it is where there is nothing to tune it by."""
        if tuning is None:
            return self.base
        digest = tuning.digest()
        if digest not in self._tuned:
            self._tuned[digest] = self.base.tuned(tuning)
        return self._tuned[digest]

    def view_key(self, instruction: str) -> ViewKey:
        """Return the identity of the view of an instruction; with one reader, its default one is the base view's."""
        return view_key(self.reader(instruction), instruction, base=not self.two)

    def dims(self) -> Iterator[int]:
        """Yield the length of each reader's vectors."""
        yield self.base.spec.dim
        if self.two:
            yield self.question.spec.dim

    def encode_views(
        self, texts: Sequence[str], instructions: Sequence[str], on_tokens: Callable[[int], None] | None = None
    ) -> list[Encoded]:
        """Read documents: embeddings and the words that an index keeps, under every instruction.

        Instructions of one reader share its pass.
        """
        found: dict[str, Encoded] = {}
        for plain in (True, False) if self.two else (None,):
            asked = [one for one in dict.fromkeys(instructions) if plain is None or plain is not bool(one.strip())]
            if asked:
                encoder = self.question if not plain else self.base
                found.update(zip(asked, encode_views(encoder, texts, asked, on_tokens), strict=True))
        return [found[one] for one in instructions]
