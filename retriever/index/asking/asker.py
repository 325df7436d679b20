"""The one object that asks models at endpoints about the texts of an index: model, permission, memory and pacing."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np

from retriever.core.errors import EncoderError, ReadingLimitError
from retriever.core.text import is_blank
from retriever.core.types import Ids
from retriever.encoders.answers.places import ENCODERS, METHOD, Place, endpoint_name, find_place
from retriever.encoders.model_options import NamedModel
from retriever.index.asking.consent import Consent
from retriever.index.asking.limits import KEPT_HINT, Budget
from retriever.index.sources.answers import Reader
from retriever.store.asking import owner_name
from retriever.store.database import Store

if TYPE_CHECKING:
    from retriever.encoders.answers.answerer import Answer, Answerer, C
    from retriever.encoders.answers.call import RefusableCall
    from retriever.encoders.rerankers import Reranker

OnTexts = Callable[[int, int], None]
"""Called with texts that were answered and texts that are asked about; what it raises ends the asking."""

_PAUSE = 0.05  # seconds between two looks at what others are asking


@dataclass(frozen=True, slots=True)
class ReaderPlace:
    """Where a reader gets texts.

    Attributes:
        name: of the reader.
        host: with the port; empty where texts stay in this process.
        local: whether that is this machine.
        allowed: whether texts of the index may be sent there.
    """

    name: str
    host: str
    local: bool
    allowed: bool


class Asker:
    """Asks language models about the texts of one index, as long as that is open; threads may share it.

    Texts go to hosts alone that this person allowed for the index, within the limits of a budget, each once: what was
    answered or refused is remembered, and what another process is asking is waited for.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.consent = Consent(store)

    def meet(self, name: str, budget: Budget) -> Reader:
        """Return a language model as answers are kept under it; one that the index has not met is asked eight probes.

        Raises:
            ConsentError: it is at a host that nobody allowed; nothing was sent.
            EncoderError: there is no such model, or it cannot be asked.
            ReadingLimitError: the probes are more than a limit leaves.
        """
        model = self._allowed(name)
        models, key = self._store.language_models, _key(model.spec)
        known = models.fingerprint(*key)
        if not known:
            if budget.room(0) == 0:
                raise ReadingLimitError("No text may be sent, and so no probe.", hint="Raise --max-texts.")
            try:
                known = models.meet(*key, model.probe(spend=budget))
            finally:
                budget.save()
        return Reader(name, known)

    def answer(self, by: Reader, question: str, ids: Ids, budget: Budget, on_texts: OnTexts | None = None) -> int:
        """Ask about texts that were not asked about, the most wanted first, and store every answer as it comes.

        Returns:
            How many texts stay unread because a limit is reached; the budget counts them too.

        Raises:
            ConsentError: the model is at a host that nobody allowed; nothing was sent.
            EncoderError: it cannot be asked, or is another one by now; what was answered is kept.
        """
        model = self._allowed(by.name)
        if self._store.language_models.fingerprint(*_key(model.spec)) != by.fingerprint:
            raise EncoderError(
                f"{by.name} is another model, or at another address, than the one that answered {question!r}.",
                hint=f"Answers of the two are not mixed. Choose it again: --reader {by.name}.",
            )
        run = _Run(self._store, model, by, question, budget, on_texts, len(ids))
        try:
            return run.finish(list(map(int, ids)))
        finally:
            self._store.claims.release(run.owner)

    def send(self, name: str, call: "RefusableCall[C]", texts: int, budget: Budget) -> "tuple[C, str]":
        """Send a call that is no question about texts, such as for categories, once more where its reply is refused.

        A reply that was taken is kept: the same call to the same model is not sent again. The call holds so many
        ``texts`` of the index, or answers about them.

        Returns:
            The checked reply, and why it is refused; empty where it is taken.

        Raises:
            ConsentError: the model is at a host that nobody allowed; nothing was sent.
            ReadingLimitError: a limit is reached.
            EncoderError: the model cannot be asked.
        """
        from pydantic import TypeAdapter, ValidationError

        from retriever.encoders.answers import loading
        from retriever.encoders.answers.answerer import Unread
        from retriever.encoders.answers.call import send_twice
        from retriever.encoders.answers.wire import Format

        spec = loading.load_answerer(name).spec
        model = self._store.language_models.fingerprint(*_key(spec)) or f"{name} {spec.url}"
        key = sha256(repr((call.name, call.messages(Format.LIMITED))).encode()).digest()
        kind: TypeAdapter[C] = TypeAdapter(type(call.unusable(Unread.EMPTY)))
        with suppress(ValidationError):
            if (known := self._store.replies.get(model, key)) is not None:
                return kind.validate_json(known), ""
        answerer = self._allowed(name)
        self._begin(texts, budget)
        budget.spent.texts += texts
        try:
            checked, refused = send_twice(answerer, call, spend=budget)
        finally:
            budget.save(texts)
        if not refused:
            self._store.replies.put(model, key, kind.dump_json(checked).decode())
        return checked, refused

    def score(self, reranker: "Reranker", query: str, texts: Sequence[str], budget: Budget) -> list[float]:
        """Return what a reranker gives for a query and each text; one on this machine is asked without limits.

        Raises:
            ConsentError: it is at a host that nobody allowed; nothing was sent.
            ReadingLimitError: a limit is reached.
            EncoderError: it cannot be loaded or asked.
        """
        if not reranker.place.host:
            return reranker.score(query, texts)
        self._require_allowed(reranker.place)
        self._begin(len(texts), budget)
        before, sent = budget.spent.tokens, len(texts)
        budget.spent.reranked += sent
        try:
            return reranker.score(query, texts, spend=budget)
        except EncoderError:
            if budget.spent.tokens == before:  # nothing was read there
                budget.spent.reranked -= sent
                sent = 0
            raise
        finally:
            budget.save(sent)

    def _begin(self, texts: int, budget: Budget) -> None:
        """Begin the minutes of a reading, or raise ReadingLimitError where a limit leaves no room for so many texts."""
        room = budget.room(budget.spent.texts + budget.spent.reranked)
        if room is not None and texts > room:
            raise ReadingLimitError("A limit of texts is reached.", hint=KEPT_HINT)
        budget.begin()

    def _allowed(self, name: str) -> "Answerer":
        """Return a language model that may get texts of the index."""
        from retriever.encoders.answers import loading

        model = loading.load_answerer(name)  # what is known of its endpoint is shared by the process
        self._require_allowed(model.spec)
        return model

    def _require_allowed(self, place: Place) -> None:
        if place.host and not place.loopback:
            self.consent.require(place.host)


def place_of(name: str, allowed: Collection[str]) -> ReaderPlace:
    """Return where a language model or an encoder gets texts, given the hosts that may; nobody is asked.

    Raises:
        EncoderError: the name is of no endpoint that may be used.
    """
    if encoder := endpoint_name(name):
        place = find_place(NamedModel.parse(encoder).name, ENCODERS)
    elif name.startswith(f"{METHOD}:"):
        place = find_place(name)
    else:
        return ReaderPlace(name, "", local=True, allowed=True)
    return ReaderPlace(name, place.host, place.loopback, place.loopback or place.host in allowed)


@contextmanager
def on_wait(notify: Callable[[str], None]) -> Iterator[None]:
    """Call a function with a sentence whenever a language model takes long, on any thread, until the context ends."""
    from retriever.encoders.answers.answerer import Waiting

    before = Waiting.on_wait
    Waiting.on_wait = staticmethod(notify)
    try:
        yield
    finally:
        Waiting.on_wait = before


def _key(spec: Place) -> tuple[str, str, str]:
    from retriever.encoders.answers.questions import PROMPT

    return spec.name, spec.url, PROMPT


class _Run:
    """One asking: texts are claimed, sent, and stored as they come back; others' claims are waited for."""

    def __init__(
        self,
        store: Store,
        model: "Answerer",
        by: Reader,
        question: str,
        budget: Budget,
        on_texts: OnTexts | None,
        total: int,
    ) -> None:
        self._store, self._model, self._by, self._question = store, model, by, question
        self._budget, self._on_texts, self._total = budget, on_texts, total
        self._done = 0
        self.owner = owner_name(uuid4().hex)

    def finish(self, wanted: list[int]) -> int:
        """Ask until every text was answered, refused, or is beyond a limit; return how many are."""
        until, unread = self._budget.begin(), 0
        claims, author = self._store.claims, self._by.fingerprint
        while wanted:
            mine = self._claim(wanted)
            if len(mine):
                unread += self._send(mine, until)
                sent = set(mine.tolist())
                wanted = [content for content in wanted if content not in sent]
            late = until is not None and time.monotonic() >= until
            others = np.intersect1d(claims.held_by_others(self.owner, author, self._question), wanted)
            if late or not len(others):
                break
            self._tell()
            time.sleep(_PAUSE)
        unread += len(np.setdiff1d(wanted, self._store.answers.asked(author, self._question)))
        self._budget.spent.unread += unread
        return unread

    def _claim(self, wanted: list[int]) -> Ids:
        """Claim as many texts as a limit leaves room for, and count them as sent today."""
        store, author = self._store, self._by.fingerprint
        with store.writing(data=False):
            others = store.claims.held_by_others(self.owner, author, self._question)
            room = self._budget.room(store.answers.count_paid(author, self._question) + len(others))
            mine = store.claims.take(self.owner, author, self._question, wanted, room)
            if len(mine):
                store.spending.add(len(mine), 0)
        return mine

    def _send(self, ids: Ids, until: float | None) -> int:
        """Send texts, and return how many of them a limit left unread."""
        from retriever.core.unanswered import NOT_SAID
        from retriever.encoders.answers.answerer import Unread

        spent, author = self._budget.spent, self._by.fingerprint
        texts = self._store.documents.texts(ids)
        blank = {content: NOT_SAID for content, text in texts.items() if is_blank(text)}
        self._store.answers.put(author, self._question, blank)
        asked = [content for content in texts if content not in blank]
        left = set(asked)

        def keep(results: "list[Answer]") -> None:
            answers = {asked[each.row]: each.answer for each in results}
            refused = {content: str(answer) for content, answer in answers.items() if isinstance(answer, Unread)}
            said = {content: str(answer) for content, answer in answers.items() if content not in refused}
            with self._store.writing():
                self._store.answers.put(author, self._question, said, refused)
                self._store.claims.release(self.owner, list(answers))
                self._store.claims.renew(self.owner)
                self._budget.save()
            for reason in refused.values():
                spent.failures[Unread(reason)] = spent.failures.get(Unread(reason), 0) + 1
            left.difference_update(answers)
            spent.texts += len(answers)
            self._done += len(answers)
            self._tell()

        try:
            with suppress(ReadingLimitError):  # of tokens, which are counted call by call
                self._model.answer(
                    [texts[content] for content in asked], self._question, keep=keep, spend=self._budget, until=until
                )
            return len(left)
        finally:
            self._budget.save(len(asked) - len(left) - len(ids))  # all were counted as sent
            self._store.claims.release(self.owner)

    def _tell(self) -> None:
        if self._on_texts is not None:
            self._on_texts(self._done, self._total)
