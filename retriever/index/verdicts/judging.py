"""Judge whether the questions of views are followed: once a view, on a sample of what it holds, and stored with it."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np

from retriever.core.errors import UsageError
from retriever.core.protocols import Encoder
from retriever.core.text import drop_prefixes
from retriever.core.types import Encoded, Ids
from retriever.core.verdicts import Verdict
from retriever.core.words import in_whole_words
from retriever.index.encoding import OnTexts, texts_read
from retriever.index.sources.encoders import Encoders
from retriever.index.verdicts import arithmetic
from retriever.index.verdicts.measured import MEASURED
from retriever.index.verdicts.reading import meanings, read
from retriever.index.verdicts.stored import Judgement, cannot_be_judged, store_judgement, stored_verdict
from retriever.store.database import Store
from retriever.store.views import View

TEXTS = 40
"""Most texts that a verdict looks at."""

LEAST_TEXTS = 30
"""Fewest vectors of a view that is judged without being asked to."""

SUITING = 0.13
"""Mean cosine of a question and the model's most frequent answers below which no question is called followed.

Kinds of product have 0.11 with "What is the main reason for the rating?", and 0.29 with "What kind of product is it?".
Of the labelled questions in docs/evaluation.md one in ten has less.
"""

GROWTH = 2.0
"""By how much a view has to grow to be judged again, where fewer than `TEXTS` were looked at."""

_TURN = threading.Lock()
_LOOK_SECONDS = 0.2
_MOST_WORDS = 20
_SUITING = 8
_SEED = 0


def wants_judging(store: Store, view: View) -> bool:
    """Whether a view holds enough for a verdict that it does not have yet, or much more than that one saw."""
    if not view.key.instruction or store.sources.makes(view.view_id) or cannot_be_judged(store, view.view_id):
        return False
    known, held = stored_verdict(store, view.view_id), store.vectors.count_live(view.view_id)
    if known is None:
        return held >= LEAST_TEXTS
    return known.texts < TEXTS and held >= GROWTH * known.texts


def sampled(contents: Ids) -> Ids:
    """Return the texts that a verdict looks at, of those there are, ascending; the same ones every time."""
    return np.sort(np.random.default_rng(_SEED).permutation(contents)[:TEXTS])


def judge_view(store: Store, encoders: Encoders, view: View, *, on_texts: OnTexts | None = None) -> Verdict | None:
    """Judge a view by a sample of what it holds, and store the verdict; None where too little can be read."""
    ids = store.vectors.held(view.view_id)
    live = np.intersect1d(ids, store.documents.live_contents())
    chosen = sampled(live)
    if len(chosen) < LEAST_TEXTS:
        return None
    held = store.vectors.get(view.view_id, chosen)
    texts = store.documents.texts(held.content_ids)
    sample = [texts[content_id] for content_id in held.content_ids.tolist()]
    known = Encoded(held.embeddings, held.words)
    with _turn(on_texts, len(sample)):
        if not wants_judging(store, view):  # somebody else has found it out meanwhile
            return stored_verdict(store, view.view_id)
        judged: Judgement | None = None
        question, plain = encoders.question, encoders.plain
        with suppress(UsageError):  # a question near the limit of an instruction's length cannot be turned around
            judged = judge(question, plain, sample, view.key.instruction, known=known, on_texts=on_texts)
        store_judgement(store, view.view_id, judged)
        return None if judged is None else judged.verdict


def judge(
    encoder: Encoder,
    plain: Encoder | None,
    texts: Sequence[str],
    question: str,
    *,
    known: Encoded | None = None,
    on_texts: OnTexts | None = None,
) -> Judgement:
    """Judge whether an encoder follows a question on some texts.

    Args:
        encoder: what is judged.
        plain: a reader of texts as they are, which tells what kind of question it is, which answers mean the same, and
            whether they suit the question; None where there is none.
        texts: different ones, the more the surer; `TEXTS` are enough.
        question: what is asked of them.
        known: what the encoder made of them under the question, where that is stored.
        on_texts: told how far the reading is.

    Raises:
        UsageError: the question is too long to be asked in other words too.
    """
    evidence = read(encoder, texts, question, known=known, on_tokens=texts_read(encoder, texts, on_texts))
    if on_texts is not None:
        on_texts(len(texts), len(texts))
    said = None if plain is None else meanings(plain, evidence.asked)
    features = {**arithmetic.features(evidence, said), **MEASURED.of_wording(plain, question)}
    chance = 0.0 if arithmetic.same_whatever_is_asked(evidence) else round(MEASURED.chance(features), 4)
    answers = most_answered(map(in_whole_words, evidence.asked.words, texts))
    level = MEASURED.level(chance)
    if level == "followed" and plain is not None and not suit(plain, answers, question):
        level = "unclear"
    verdict = Verdict(
        instruction=question,
        level=level,
        chance=chance,
        texts=len(texts),
        answers=answers,
        measured=MEASURED.is_of(encoder, plain),
    )
    return Judgement(verdict, features)


def suit(plain: Encoder, answers: Sequence[tuple[str, int]], question: str) -> bool:
    """Whether answers can be those to a question, by the cosines of both in a plain reader's space."""
    words = [word for word, _ in answers[:_SUITING]]
    if not words:
        return True
    vector, *said = plain.encode([question, *words])
    return float(np.mean(np.stack(said) @ vector)) >= SUITING


def most_answered(answers: Iterable[Sequence[str]]) -> list[tuple[str, int]]:
    """Return the words most texts were answered with, and of how many texts."""
    counts = Counter(word for words in answers for word in dict.fromkeys(words))
    return [(word, counts[word]) for word in drop_prefixes((word for word, _ in counts.most_common()), _MOST_WORDS)]


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
