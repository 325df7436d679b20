"""A language model behind an OpenAI-compatible endpoint as what answers questions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal

from retriever.core.errors import EncoderError, UsageError
from retriever.core.fingerprint import json_hash
from retriever.core.protocols import refuse_one_string
from retriever.core.text import is_blank
from retriever.encoders.answers.answerer import Answered, C, OnAnswers, Spend, Unread, explained
from retriever.encoders.answers.call import Call
from retriever.encoders.answers.calls import Calls
from retriever.encoders.answers.endpoint import endpoint_at
from retriever.encoders.answers.exchange import connected
from retriever.encoders.answers.patience import Meter
from retriever.encoders.answers.places import find_place
from retriever.encoders.answers.questions import PROMPT
from retriever.encoders.answers.refusals import CallRefusedError
from retriever.encoders.answers.remembered import Abilities

PROBE_QUESTION = "Which product is it about?"
PROBES = (
    "The kettle boils fast and switches itself off.",
    "My new umbrella turned inside out on the first windy day.",
    "I have slept badly ever since this mattress came.",
    "Four stars for the toaster, minus one for the crumbs.",
    "This bicycle needs a better saddle.",
    "The camera takes sharp pictures even at night.",
    "Our dishwasher leaves every glass cloudy.",
    "The headphones hurt my ears after an hour.",
)
"""Texts whose answers tell one remote model from another under the same name."""


class ChatAnswerer:
    """Asks a chat model; what is learned of its endpoint is shared by all objects of the process.

    Args:
        name: ``chat:MODEL`` or ``chat:URL#MODEL``.
        abilities: ways of asking, in place of what is known of the endpoint.

    Raises:
        EncoderError: the name is none, or its endpoint may not be used.
    """

    def __init__(self, name: str, *, abilities: Abilities | None = None) -> None:
        self.spec = find_place(name)
        self._endpoint = endpoint_at(self.spec)
        if abilities is not None:
            self._endpoint.abilities = abilities

    @property
    def abilities(self) -> Abilities:
        """Ways of asking that the endpoint was found to understand until now."""
        return self._endpoint.abilities

    def probe(self, *, spend: Spend | None = None) -> str:
        """Return the hex SHA-256 over model, prompt and the answers to the probes, which are asked for now.

        A server need not answer twice in the same words: another hash can come though nothing was changed.

        Raises:
            EncoderError: the endpoint cannot be asked, or has no answer to a probe.
        """
        place, answered = self._endpoint.place, self.answer(PROBES, PROBE_QUESTION, spend=spend)
        answers = [(answer or "").casefold() for answer in answered.answers]
        if not all(answers):
            raise EncoderError(
                f"{place.model} at {place.host} has no answer to {answers.count('')} of {len(PROBES)} probes. "
                f"{explained(answered.failures)}",
                hint="Try another model.",
            )
        return json_hash({"model": place.model, "prompt": PROMPT, "probes": answers})

    def answer(
        self,
        texts: Sequence[str],
        question: str,
        *,
        keep: OnAnswers | None = None,
        spend: Spend | None = None,
        until: float | None = None,
    ) -> Answered:
        """Answer a question for every text; arguments and errors as for `Answerer.answer`.

        A call of which nothing comes is asked again in halves, down to its texts. An error ends the work after the
        calls in flight; an interrupt cancels these.
        """
        refuse_one_string(texts)
        if is_blank(question):
            raise UsageError("A question is blank.")
        calls = Calls(texts, question, self._endpoint, keep, Meter(spend, until))
        if calls.pending:
            with self._connected() as (portal, client):
                calls.run(portal, client)
        return calls.result()

    def send(self, call: Call[C], *, spend: Spend | None = None) -> C:
        """Send a call and return its checked reply; once more with twice the limit where it is late.

        Raises:
            EncoderError: the endpoint cannot be asked.
        """
        meter = Meter(spend)
        with self._connected() as (portal, client):
            try:
                made = portal.call(self._endpoint.ask, client, call, meter)
            except CallRefusedError as refused:
                if refused.reason is not Unread.LATE or refused.patient:
                    raise
                made = portal.call(self._endpoint.ask, client, call, meter)
        return made

    @contextmanager
    def _connected(self) -> Iterator[tuple[BlockingPortal, httpx.AsyncClient]]:
        """Give an event loop on a thread of its own and a client in it."""
        with start_blocking_portal() as portal:
            context = connected(self._endpoint.place)
            with portal.wrap_async_context_manager(context) as client:
                yield portal, client
