"""Any sentence-transformers model as an encoder, with the prompts that it wants before queries and documents."""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from hashlib import shake_256
from pathlib import Path
from typing import Any

import numpy as np

from retriever.core.errors import EncoderError, UsageError
from retriever.core.fingerprint import json_hash
from retriever.core.protocols import CHARACTERS_PER_TOKEN, Encoder, EncoderSpec, OnStep, Tuning, refuse_one_string
from retriever.core.registry import resolve
from retriever.core.roles import RolePrompts
from retriever.core.similarity import normalise
from retriever.core.text import composed, is_blank
from retriever.core.types import JSON, Embeddings, Encoded, Ids
from retriever.encoders.bert.encoder import BertEncoder
from retriever.encoders.bert.layout import read_layout
from retriever.encoders.device import pick_device, pick_dtype
from retriever.encoders.families import role_prompts
from retriever.encoders.methods import EncoderOptions
from retriever.encoders.model_options import NamedModel
from retriever.encoders.refusals import refuse_what_is_none
from retriever.encoders.sources import ModelSource, find_source
from retriever.encoders.tokenize import distinct

BATCH_SIZE = 32
NO_PROMPTS = RolePrompts()
_WORD = re.compile(r"(?<![^\W_])[A-Za-z0-9]{1,20}(?![^\W_])")  # that any vocabulary has, whole or in pieces


class SentenceEncoder(Encoder):
    """Reads each text by itself, behind the prompt of its role and the instruction, where one is given.

    A BERT with mean or first-token pooling (all-MiniLM-L6-v2) is read by `BertEncoder`, which needs no torch for a few
    texts; any other model by its own package.

    Args:
        source: a known wheel, a folder or a hub name.
        name: what `load_encoder` finds this encoder by.
        prompts: what stands before queries and documents.
        dim: how many numbers of a vector are kept; None for all.
        device: as for every encoder.
        dtype: as for every encoder, but ``auto`` means float32, which these small models are published in. A
            `BertEncoder` reads many texts in bfloat16 all the same where the CPU multiplies it: vectors agree with
            those in float32 to a cosine of 0.999, and are of the same view.
    """

    method = "st"
    pooling = "model"

    def __init__(
        self,
        source: str | ModelSource,
        *,
        name: str = "",
        prompts: RolePrompts = NO_PROMPTS,
        dim: int | None = None,
        device: str = "auto",
        dtype: str = "auto",
    ) -> None:
        self.source = find_source(source) if isinstance(source, str) else source
        layout = read_layout(self.source.folder)
        self.model: BertEncoder | StockModel = (
            StockModel(self.source.folder, device=device, dtype=dtype)
            if layout is None
            else BertEncoder(layout, device=device, dtype=dtype)
        )
        self._spec = EncoderSpec(
            fingerprint=json_hash({"method": self.method, "backbone": self.source.digest} | _identity(prompts, dim)),
            dim=_kept(self.model.dim, dim, self.source.name),
            name=name,
            pooling=self.pooling,
            dtype=self.model.dtype,
            default_instruction=prompts.default_instruction,
            max_text_tokens=self._room(prompts.document),
            prompts=prompts,
        )

    def _room(self, prompt: str) -> int | None:
        """Return how many tokens of a text are read behind a prompt."""
        most = self.model.max_text_tokens
        return most if most is None or not prompt else max(0, most - self.count_tokens([prompt])[0])

    @property
    def spec(self) -> EncoderSpec:
        """Description of this encoder; the fingerprint covers the model's files."""
        return self._spec

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Embed every text under every instruction; nothing is shared between them, and there are no words."""
        unique, positions = distinct(texts)
        lengths = [] if on_tokens is None else self._read_tokens(unique)
        unknown, by_characters = self._unknown(unique)
        views = []
        for instruction in instructions:
            rows = np.zeros((len(unique), self.dim), dtype=np.float32)
            for read, vectors in self._read(unique, instruction):
                rows[read] = vectors[:, : self.dim]
                if on_tokens is not None:
                    on_tokens(sum(lengths[row] for row in read))
            rows[unknown] = by_characters
            views.append(Encoded(self._of_length_1(rows)[positions], [[] for _ in texts]))
        return views

    def encode_queries(self, queries: Sequence[str], *, instruction: str = "") -> Embeddings:
        """Embed queries behind their prompt; a `BertEncoder` reads them without torch, which texts wait for."""
        refuse_one_string(queries)
        rows = np.zeros((len(queries), self.dim), dtype=np.float32)
        for read, vectors in self._read_queries(queries, instruction):
            rows[read] = vectors[:, : self.dim]
        unknown, by_characters = self._unknown(queries)
        rows[unknown] = by_characters
        return self._of_length_1(rows)

    def _of_length_1(self, rows: Embeddings) -> Embeddings:
        if not np.isfinite(rows).all():
            raise EncoderError(
                f"{self.spec.label} gives vectors that are not numbers.",
                hint="Its weights are damaged, or too large for their number format: fetch it again, or use float32.",
            )
        return normalise(rows)

    def _read(self, texts: Sequence[str], instruction: str) -> Iterator[tuple[Sequence[int], Embeddings]]:
        """Yield positions of some texts and their vectors under an instruction, of any length."""
        prompt = self.spec.prompts.before_document(instruction)
        if isinstance(self.model, BertEncoder):
            return self.model.read([prompt + text for text in texts])
        return self.model.read(texts, prompt)

    def _read_queries(self, queries: Sequence[str], instruction: str) -> Iterator[tuple[Sequence[int], Embeddings]]:
        """Yield positions of some queries and their vectors under an instruction, of any length."""
        prompt = self.spec.prompts.before_query(instruction)
        if isinstance(self.model, BertEncoder):
            return self.model.read_queries([prompt + query for query in queries])
        return self.model.read_queries(queries, prompt)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of every text, however long."""
        return self.model.count_tokens(texts)

    def knows(self, texts: Sequence[str]) -> list[bool]:
        """Return whether the vocabulary has anything of each text."""
        known = [_WORD.search(text) is not None for text in texts]
        doubtful = [row for row, knows in enumerate(known) if not knows]
        for row, knows in zip(doubtful, self.model.knows([texts[row] for row in doubtful]), strict=True):
            known[row] = knows
        return known

    def _unknown(self, texts: Sequence[str]) -> tuple[list[int], Embeddings]:
        """Return which texts the vocabulary has nothing of, and vectors of them by their characters."""
        unknown = [row for row, knows in enumerate(self.knows(texts)) if not knows]
        return unknown, character_vectors([texts[row] for row in unknown], self.dim)

    def tune(self, texts: Sequence[str], labels: Ids, *, steps: int, on_step: OnStep | None = None) -> Tuning:
        """Fine-tune on a few examples, where a `BertEncoder` reads; arguments and errors as for `Encoder.tune`."""
        if not isinstance(self.model, BertEncoder):
            return super().tune(texts, labels, steps=steps, on_step=on_step)
        return self.model.tune(texts, labels, steps=steps, on_step=on_step)

    def tuned(self, tuning: Tuning) -> Encoder:
        """Return this encoder as a fine-tuning makes it; errors as for `Encoder.tuned`."""
        if not isinstance(self.model, BertEncoder):
            return super().tuned(tuning)
        other = copy(self)
        other.model = self.model.tuned(tuning)
        other._spec = replace(self._spec, name="", fingerprint=tuning.fingerprint(self._spec.fingerprint))
        return other


def load(name: str, source: str, options: EncoderOptions, *, device: str, dtype: str) -> SentenceEncoder:
    """Load a model by its name, with options behind it (`NamedModel`) and the prompts that are recognised.

    Raises:
        UsageError: an option was given that it does not have, or more dimensions than it has.
        EncoderError: the model or its package is missing, or it is no sentence encoder.
    """
    refuse_options(name, options)
    given = NamedModel.parse(source)
    known = find_source(given.name)
    refuse_what_is_none(known)
    prompts = role_prompts(known, given)
    return SentenceEncoder(known, name=name, prompts=prompts, dim=given.dim, device=device, dtype=dtype)


def refuse_options(name: str, options: EncoderOptions) -> None:
    """Raise a UsageError where options hold a setting that sentence encoders do not have."""
    given = replace(options, pooling=None) if options.pooling == SentenceEncoder.pooling else options
    for setting in ("steps", "look_ahead", "template", "pooling"):
        if getattr(given, setting) is not None:
            problem = f"{name} has no {setting.replace('_', '-')} to choose."
            raise UsageError(problem, hint="Its own modules fix how it pools.")


def _identity(prompts: RolePrompts, dim: int | None) -> dict[str, JSON]:
    """Return what a fingerprint covers besides method and model; nothing where there is nothing."""
    said: dict[str, JSON] = {} if dim is None else {"dim": dim}
    if prompts:
        said["prompts"] = [prompts.query, prompts.document, prompts.default_instruction]
    return said


def _kept(whole: int, dim: int | None, name: str) -> int:
    """Return how many numbers of a vector are kept."""
    if dim is not None and dim > whole:
        raise UsageError(f"{name} has {whole} dimensions, not {dim}.", hint=f"Say dim={whole} or less.")
    return dim or whole


class StockModel:
    """A model read by `SentenceTransformer`, as it is; safe for several threads, which take turns.

    The number format ``auto`` means float32.

    Raises:
        UsageError: there is no such device or number format.
        RetrieverError: sentence-transformers is not installed.
        EncoderError: the folder holds no model that can be loaded.
    """

    def __init__(self, folder: Path, *, device: str, dtype: str) -> None:
        kind = resolve("sentence_transformers:SentenceTransformer", package="retriever[peers]")
        from transformers.utils import logging

        from retriever.encoders.backbone import readable

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        place = pick_device(device)
        number_format = pick_dtype("float32" if dtype == "auto" else dtype, place)
        with readable(folder):
            self._model: Any = kind(
                str(folder), device=str(place), model_kwargs={"dtype": number_format}, local_files_only=True
            )
        self._turns = threading.Lock()  # its tokenizer cannot serve two threads at once
        self.dim: int = self._model.get_embedding_dimension() or 0
        self.dtype = str(number_format).removeprefix("torch.")
        # A model of other units than tokens (a bag of words, say) has no tokenizer that counts, and no limit.
        tokenizer: Any = getattr(self._model, "tokenizer", None)
        self._tokenizer = tokenizer if hasattr(tokenizer, "num_special_tokens_to_add") else None
        limit = self._model.max_seq_length if self._tokenizer else None
        self.max_text_tokens = max(0, limit - tokenizer.num_special_tokens_to_add()) if limit else None

    def read(self, texts: Sequence[str], prompt: str = "") -> Iterator[tuple[Sequence[int], Embeddings]]:
        """Yield positions and vectors of documents behind a prompt, longest first, as the model itself makes them."""
        return self._read(texts, prompt, self._model.encode_document)

    def read_queries(self, texts: Sequence[str], prompt: str = "") -> Iterator[tuple[Sequence[int], Embeddings]]:
        """Yield positions and vectors of queries behind a prompt."""
        return self._read(texts, prompt, self._model.encode_query)

    def _read(
        self, texts: Sequence[str], prompt: str, encode: Callable[..., Embeddings]
    ) -> Iterator[tuple[Sequence[int], Embeddings]]:
        order = np.argsort([-len(text) for text in texts])
        for start in range(0, len(order), BATCH_SIZE):
            batch = order[start : start + BATCH_SIZE].tolist()
            chosen = [texts[row] for row in batch]
            with self._turns:
                vectors = encode(chosen, prompt=prompt, batch_size=BATCH_SIZE, show_progress_bar=False)
            yield batch, vectors

    @property
    def ends_texts(self) -> bool:
        """Whether the tokenizer puts a token behind each text; True where there is no tokenizer to ask."""
        if self._tokenizer is None:
            return True
        whole: list[int] = self._tokenizer("x")["input_ids"]
        return whole[-1:] != self._ids(self._tokenizer, ["x"])[0][-1:]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, uncut; estimated from its length where the model has no tokenizer to ask."""
        if not texts or self._tokenizer is None:
            return [1 + len(text) // CHARACTERS_PER_TOKEN for text in texts]
        return [len(row) for row in self._ids(self._tokenizer, texts)]

    def knows(self, texts: Sequence[str]) -> list[bool]:
        """Return whether the vocabulary has anything of each text; True where there is no tokenizer to ask."""
        unknown = getattr(self._tokenizer, "unk_token_id", None)
        if not texts or unknown is None:
            return [True for _ in texts]
        return [not row or any(token != unknown for token in row) for row in self._ids(self._tokenizer, texts)]

    def _ids(self, tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:  # noqa: ANN401 - it has no common type
        with self._turns:
            encoded = tokenizer(list(texts), add_special_tokens=False, truncation=False, verbose=False)
        return list(encoded["input_ids"])


_LONGEST = 3  # characters that stand together
_MOST = 10_000  # characters of a text that are looked at


def character_vectors(texts: Sequence[str], dim: int) -> Embeddings:
    """Return vectors (n, dim) of length 1, near one another as far as texts share characters, and far from all others.

    A vector is the sum of those of the text's different runs of one to three characters, each of which points in a
    direction of its own, drawn by its hash.
    """
    rows = np.zeros((len(texts), dim), dtype=np.float32)
    for row, text in zip(rows, texts, strict=True):
        seen = "".join(character for character in composed(text[:_MOST]).casefold() if not is_blank(character)) or text
        runs = {seen[at : at + length] for length in range(1, _LONGEST + 1) for at in range(len(seen) - length + 1)}
        for run in sorted(runs):  # in one order, since sums of floats depend on it
            row += np.frombuffer(shake_256(run.encode()).digest(dim), dtype=np.uint8).astype(np.float32) - 127.5
    return normalise(rows)
