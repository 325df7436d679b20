"""Judge once an index and question whether it is followed, by a sample of the texts; stored with the view."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from retriever.core.protocols import Encoder
from retriever.core.types import Encoded, Ids
from retriever.core.verdicts import Verdict, worse
from retriever.core.words import distinct, in_whole_words
from retriever.index.encoding import OnTexts, texts_read
from retriever.index.sources.encoders import Encoders
from retriever.index.verdicts.features import by_topic, features_of, most_answered
from retriever.index.verdicts.measured import MEASURED
from retriever.index.verdicts.reading import Evidence, read
from retriever.index.verdicts.stored import Judgement, in_language, store_judgement, stored_verdict
from retriever.store.database import Store
from retriever.store.views import View

TEXTS = 40
"""Most texts that a verdict looks at."""

LEAST_TEXTS = 30
"""Fewest different texts of an index whose questions are judged."""

_TURN = threading.Lock()
_LOOK_SECONDS = 0.2
_SEED = 0


def wants_judging(store: Store, view: View) -> bool:
    """Whether a view's question has no verdict yet, and the index has enough texts for one."""
    if not view.key.instruction or store.sources.makes(view.view_id):
        return False
    if stored_verdict(store, view.view_id) is not None:
        return False
    return store.documents.count_contents() >= LEAST_TEXTS


def sampled(contents: Ids) -> Ids:
    """Return the texts that a verdict looks at, of those there are, ascending; the same ones every time."""
    return np.sort(np.random.default_rng(_SEED).permutation(contents)[:TEXTS])


def judge_view(store: Store, encoders: Encoders, view: View, *, on_texts: OnTexts | None = None) -> Verdict | None:
    """Judge the question of a view by a sample of the index's texts, and store the verdict; None of too few texts.

    It looks at the same texts whatever the view holds, so that no search decides what is said of its question.
    """
    encoder, question = encoders.question, view.key.instruction
    chosen = sampled(store.documents.live_contents())
    with _turn(on_texts, len(chosen)):
        if not wants_judging(store, view):  # too few texts, or somebody else has found it out meanwhile
            return stored_verdict(store, view.view_id)
        texts, held = list(store.documents.texts(chosen).values()), store.vectors.get(view.view_id, chosen)
        known = Encoded(held.embeddings, held.words) if len(held.content_ids) == len(chosen) else None
        evidence = read(encoder, texts, question, known=known, on_tokens=texts_read(encoder, texts, on_texts))
        if on_texts is not None:
            on_texts(len(texts), len(texts))
        judgement = judge(encoder, encoders.plain, question, evidence)
        store_judgement(store, view.view_id, judgement)
        return in_language(store, judgement).verdict


def judge(encoder: Encoder, plain: Encoder | None, question: str, evidence: Evidence) -> Judgement:
    """Judge whether an encoder follows a question, by what it made of some texts.

    The base encoder, where there is one, tells which answers mean the same, and what the texts are about.
    """
    features = features_of(evidence, question, plain)
    chance = 0.0 if evidence.same else round(MEASURED.chance(features), 4)
    answers = dict(most_answered(map(in_whole_words, evidence.asked.words, evidence.texts)))
    other = not evidence.same and by_topic(features)
    verdict = Verdict(
        instruction=question,
        level=worse(MEASURED.level(chance), "unclear" if other else "followed"),
        chance=chance,
        texts=len(evidence.texts),
        answers=[(word, answers[word]) for word in distinct(answers, question)],
        measured=MEASURED.is_of(encoder, plain),
        another_question=other,
    )
    return Judgement(verdict, features)


@contextmanager
def _turn(on_texts: OnTexts | None, texts: int) -> Iterator[None]:
    """Wait until no other thread judges: two at a time would take twice as long each, and may be of one question.

    Whoever is told of the reading is asked meanwhile, and may end the waiting.
    """
    while not _TURN.acquire(timeout=_LOOK_SECONDS):
        if on_texts is not None:
            on_texts(0, texts)
    try:
        yield
    finally:
        _TURN.release()
