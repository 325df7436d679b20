r"""An embedding model behind an OpenAI-compatible endpoint as an encoder: ``http:URL#MODEL``.

Loading it sends nothing. What the model is shows by the vectors of a few sentences, which are asked once a process,
when a vector or the description is first needed.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Self

import numpy as np

from retriever.core.door import Door
from retriever.core.errors import ConsentError, EncoderMismatchError
from retriever.core.protocols import Encoder, EncoderSpec, refuse_one_string
from retriever.core.roles import RolePrompts
from retriever.core.types import JSON, Embeddings, Encoded
from retriever.encoders.answers.places import ENCODERS, find_place
from retriever.encoders.families import prompts_by_name
from retriever.encoders.methods import EncoderOptions
from retriever.encoders.model_options import NamedModel
from retriever.encoders.remote.calls import Call, Caller, packed
from retriever.encoders.remote.served import CALLS_AT_ONCE, PROBES, Identity, served_at
from retriever.encoders.sentence_encoder import refuse_options
from retriever.encoders.tokenize import distinct


class OpenDoor:
    """Lets everything out: whoever uses an encoder without an index has named the endpoint and the texts."""

    def open(self, host: str, *, local: bool) -> None:
        """Let texts out."""

    def send(self, texts: int) -> None:
        """Count nothing."""

    def before(self, tokens: int) -> None:
        """Count nothing."""

    def after(self, tokens: int) -> None:
        """Count nothing."""

    def close(self) -> None:
        """Store nothing."""


class ShutDoor(OpenDoor):
    """Lets nothing out to another machine: the door of an encoder that an index names, before the index opens one."""

    def open(self, host: str, *, local: bool) -> None:
        """Refuse another machine."""
        if not local:
            raise ConsentError(f"Texts of an index would be sent to {host}.", hint="Open the index first.", host=host)


class EndpointEncoder(Encoder):
    """Sends texts to an endpoint, behind the prompt of their role, several calls at a time.

    An instruction goes into the prompt as it does for a local sentence encoder; a server of this package gets it beside
    the texts.

    Args:
        name: ``http:URL#MODEL`` with options (`NamedModel`), as an index stores it.

    Raises:
        EncoderError: the name is of no endpoint that may be used.
        UsageError: an option behind it is none.
    """

    at_once = CALLS_AT_ONCE

    def __init__(self, name: str) -> None:
        given = NamedModel.parse(name)
        self.name = name
        self.place = find_place(given.name, ENCODERS)
        self._prompts = prompts_by_name(self.place.model, given)
        self._given = given
        self._served = served_at(self.place, given.dim)
        self._identity: Identity | None = None  # as an index holds it, or as it was met
        self._door: Door = OpenDoor()

    @property
    def spec(self) -> EncoderSpec:
        """Description of this encoder; the model is asked for the probes where no index has described it."""
        identity = self._identity or self._met()
        return EncoderSpec(
            fingerprint=identity.fingerprint,
            dim=identity.dim,
            name=self.name,
            pooling="model",
            default_instruction=identity.prompts.default_instruction,
            prompts=identity.prompts,
        )

    def through(self, door: Door) -> Self:
        """Return the encoder with a door of its own, which texts are sent through."""
        other = copy(self)
        other._door = door
        return other

    def memory(self) -> JSON:
        """Return the probes' vectors, and the prompts."""
        return (self._identity or self._met()).to_json()

    def known_as(self, description: Mapping[str, JSON]) -> Self:
        """Return the encoder as an index describes it, with a door that is shut; see `Encoder.known_as`.

        Raises:
            EncoderMismatchError: its name asks for other prompts or dimensions.
        """
        stored, given = description.get("memory"), self._given
        if stored is None or description["name"] != self.name:
            return self
        identity = Identity.from_description(str(description["fingerprint"]), stored)
        prompts = given.query is not None or given.document is not None
        if (prompts and _texts(self._prompts) != _texts(identity.prompts)) or given.dim not in (None, identity.dim):
            raise EncoderMismatchError(
                f"The index was made with other prompts or dimensions than those of {self.name}.",
                hint="Open it without naming an encoder, or `retriever reembed` with this one.",
            )
        other = self.through(ShutDoor())
        other._identity = identity
        return other

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Embed every text under every instruction; each is sent once an instruction, and there are no words.

        ``on_tokens`` is told of 0 tokens while calls are waited for, so that whoever is told can end the work.
        """
        unique, positions = distinct(texts)
        if not unique:
            return [Encoded(np.zeros((0, self.dim), dtype=np.float32), []) for _ in instructions]
        calls = [self._calls(unique, instruction, queries=False) for instruction in instructions]
        every = self._sent(calls, len(unique), on_tokens)
        return [Encoded(vectors[positions], [[] for _ in texts]) for vectors in every]

    def encode_queries(self, queries: Sequence[str], *, instruction: str = "") -> Embeddings:
        """Embed queries behind their prompt."""
        refuse_one_string(queries)
        if not queries:
            return np.zeros((0, self.dim), dtype=np.float32)
        return self._sent([self._calls(queries, instruction, queries=True)], len(queries))[0]

    def _calls(self, texts: Sequence[str], instruction: str, *, queries: bool) -> list[Call]:
        """Return the calls for texts of a role."""
        identity = self._identity or self._met()
        prompts, beside = identity.prompts, dict[str, str]()
        if identity.own and not prompts:  # the server knows what its model wants
            beside = {"instruction": instruction.strip(), "input_type": "query" if queries else ""}
            beside, instruction = {name: said for name, said in beside.items() if said}, ""
        before = prompts.before_query(instruction) if queries else prompts.before_document(instruction)
        return packed([before + text for text in texts], beside, self._served.texts)

    def _sent(
        self, groups: Sequence[Sequence[Call]], texts: int, on_tokens: Callable[[int], None] | None = None
    ) -> list[Embeddings]:
        """Send groups of calls, and the probes where the model was not met yet; return (texts, dim) of each group."""

        def tell(call: Call | None) -> None:
            if on_tokens is not None:
                on_tokens(0 if call is None else sum(self.count_tokens(call.texts)))

        calls, identity = [call for group in groups for call in group], self._identity or self._met()
        if self._served.probes is None:
            with self._served.lock:
                if self._served.probes is None:  # nobody else has asked for them meanwhile
                    probes, *vectors = self._caller(None).send([Call(PROBES), *calls], tell)
                    identity.require(probes, self.place)
                    self._served.probes = probes
                    return _of_groups(groups, vectors, texts)
        identity.require(self._served.probes, self.place)
        return _of_groups(groups, self._caller(identity.dim).send(calls, tell), texts)

    def _caller(self, dim: int | None) -> Caller:
        return Caller(self.place, self._served, self._given.dim, self._door, dim)

    def _met(self) -> Identity:
        """Ask for the probes, unless this process has done so, and keep what they say."""
        served, given = self._served, self._given
        with served.lock:
            if served.probes is None:
                caller = self._caller(None)
                served.own = caller.is_own()
                (served.probes,) = caller.send([Call(PROBES)], lambda call: None)
        own = served.own and given.query is None and given.document is None
        prompts = RolePrompts() if own else self._prompts  # such a server puts what its model wants
        self._identity = Identity.of(self.place, served.probes, prompts, own=served.own)
        return self._identity


def _of_groups(groups: Sequence[Sequence[Call]], vectors: Sequence[Embeddings], texts: int) -> list[Embeddings]:
    """Return the vectors (texts, dim) of each group of calls in the order of its texts."""
    rest = iter(vectors)
    made = []
    for group in groups:
        pairs = [(call, next(rest)) for call in group]
        whole = np.empty((texts, pairs[0][1].shape[1]), dtype=np.float32)
        for call, rows in pairs:
            whole[list(call.rows)] = rows
        made.append(whole)
    return made


def _texts(prompts: RolePrompts) -> tuple[str, str, str]:
    return prompts.query, prompts.document, prompts.default_instruction


def load(name: str, options: EncoderOptions) -> EndpointEncoder:
    """Load an encoder by its name; nothing is sent yet.

    Raises:
        UsageError: an option was given that it does not have.
        EncoderError: the name is of no endpoint that may be used.
        RetrieverError: the packages of the extra are missing.
    """
    refuse_options(name, options)
    return EndpointEncoder(name)
