"""Titles that a language model gives the clusters of a saved clustering, each from a few texts.

A call has the texts nearest to a cluster's centre, some of its outermost ones, and for contrast some of the nearest
other cluster, which a first reply may take no word from: whatever a text orders, it can colour the title of its own
cluster alone, unless its words stand in the other's texts too. A reply that is refused is asked for once more, without
the contrast.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from retriever.clusters.arithmetic.naming import text_words
from retriever.clusters.edits import Title, Titles
from retriever.clusters.saved import SavedClustering
from retriever.core.errors import EncoderError, ReadingLimitError, UsageError
from retriever.core.results import IndexingReport, OnIndexing
from retriever.core.similarity import normalise
from retriever.core.text import is_blank
from retriever.index.opened import Opened

if TYPE_CHECKING:
    from retriever.encoders.answers.titles import CheckedTitle, TitleCall, WrittenTitle

NEAREST, OUTERMOST, OTHERS = 6, 3, 3
"""Texts of a call: nearest to the centre, furthest from it, and of the nearest other cluster."""

TEXTS_A_TITLE = NEAREST + OUTERMOST + OTHERS

TEXT_TOKENS, QUESTION_TOKENS = 130, 200
"""Tokens of a text and of the question that are sent at most, by their estimate."""

LIMIT, NO_REPLY = "limit reached", "no reply"
_USELESS = 2  # a model is given up of which so many clusters got no title, and none got any


@dataclass(frozen=True, slots=True)
class _Draft:
    """The call for a cluster, with the ids of its texts and the names that other clusters have, in lower case."""

    number: int
    call: "TitleCall"
    ids: Sequence[str]
    taken: frozenset[str]


def make_titles(opened: Opened, saved: SavedClustering, by: str, progress: OnIndexing | None) -> Titles:
    """Ask a language model for a title of every cluster that is not hidden and that nobody named.

    A cluster of which two replies are refused keeps its name, as do those that a limit or a failing endpoint leaves.

    Args:
        opened: the index.
        saved: the clustering, with its vectors.
        by: ``chat:MODEL`` or ``chat:URL#MODEL``.
        progress: called before each call; ``in_hand`` counts the texts that were sent. What it raises ends this.

    Raises:
        UsageError: the model is none at a chat endpoint, the clusters are named categories, or none is left to name.
        ConsentError: texts would leave this machine, and nobody allowed their host.
        EncoderError: the endpoint cannot be asked, or gave no title that can be used.
        ReadingLimitError: a limit was reached before the first title.
    """
    if saved.named:
        raise UsageError("Categories keep the names that somebody gave them.", hint="Name computed clusters instead.")
    drafts = _drafts(saved)
    if not drafts:
        raise UsageError("No cluster is left to name.", hint="Hidden ones, and those that somebody named, stay.")
    made = _titled(opened, by, drafts, progress)
    if not made.titles:
        raise EncoderError(
            f"{by} gave no title that can be used ({', '.join(made.kept)}).",
            hint="Try another model.",
        )
    return made


def _titled(opened: Opened, by: str, drafts: Sequence[_Draft], progress: OnIndexing | None) -> Titles:
    """Return titles for clusters; those that a limit or a failing endpoint leaves keep their names."""
    from retriever.encoders.answers.answerer import Unread

    titles: list[Title] = []
    kept: Counter[str] = Counter()
    given: set[str] = set()
    useless, texts = 0, sum(len(draft.call.texts) + len(draft.call.others) for draft in drafts)
    sent = 0
    for done, draft in enumerate(drafts):
        if progress is not None:
            progress(IndexingReport(in_hand=sent, expected=texts))
        size = len(draft.call.texts) + len(draft.call.others)
        refusal = partial(_refusal, draft.taken | given)
        try:
            checked, refused = opened.asker.send(by, draft.call, size, opened.budget, refusal)
        except ReadingLimitError:
            if not titles:
                raise
            kept[LIMIT] += len(drafts) - done
            break
        except EncoderError:
            if not titles:
                raise
            kept[NO_REPLY] += len(drafts) - done
            break
        sent += size
        written: WrittenTitle | None = None if refused else checked.title
        if written is None:
            kept[refused] += 1
            useless += isinstance(checked.whole, Unread)
            if not titles and useless == _USELESS:
                break
            continue
        given.add(written.title.casefold())
        ids = [draft.ids[row] for row in written.rows]
        titles.append(Title(cluster=draft.number, title=written.title, description=written.description, ids=ids))
    return Titles(by, titles, dict(kept))


def _refusal(taken: frozenset[str], call: "TitleCall", checked: "CheckedTitle") -> str:
    """Return why a title of the right form is refused; empty where it is taken."""
    from retriever.encoders.answers.titles import Fault

    if checked.title is None:
        return ""
    if _borrowed(call, checked.title):
        return Fault.OTHERS
    return Fault.TAKEN if checked.title.title.casefold() in taken else ""


def _borrowed(call: "TitleCall", written: "WrittenTitle") -> bool:
    """Return whether a title or its sentence has a word that only the other cluster's texts have."""
    own = text_words(" ".join([call.question, *call.texts]))
    foreign = text_words(" ".join(call.others)) - own
    return not foreign.isdisjoint(text_words(f"{written.title} {written.description}"))


def _drafts(saved: SavedClustering) -> list[_Draft]:
    """Return the calls for the clusters that may be named, in the order of their numbers."""
    from retriever.encoders.answers.titles import TitleCall
    from retriever.encoders.answers.wire import addresses_reader

    documents, vectors = saved.material.documents, saved.material.vectors
    rows = {cluster.number: np.flatnonzero(saved.labels == cluster.number) for cluster in saved.clusters}
    numbers = [number for number in rows if len(rows[number]) and number not in saved.hidden]
    if not numbers:
        return []
    centres = normalise(np.stack([vectors[rows[number]].mean(axis=0, dtype=np.float64) for number in numbers]))
    near = centres @ centres.T
    np.fill_diagonal(near, -np.inf)
    ordered: dict[int, list[int]] = {}  # the rows of each cluster, nearest first, each another text
    for number, centre in zip(numbers, centres, strict=True):
        first: dict[str, int] = {}
        for row in rows[number][np.argsort(-(vectors[rows[number]] @ centre), kind="stable")].tolist():
            if not is_blank(documents[row].text):
                first.setdefault(documents[row].text, row)
        ordered[number] = list(first.values())
    drafts = []
    for place, number in enumerate(numbers):
        own = [*ordered[number][:NEAREST], *ordered[number][NEAREST:][-OUTERMOST:]]
        if number in saved.state.renamed or not own:
            continue
        other = ordered[numbers[int(near[place].argmax())]] if len(numbers) > 1 else []
        contrast = (documents[row].text for row in other)
        call = TitleCall(
            _cut(saved.request.instruction or "", QUESTION_TOKENS),
            [_cut(documents[row].text, TEXT_TOKENS) for row in own],
            [_cut(text, TEXT_TOKENS) for text in islice((t for t in contrast if not addresses_reader(t)), OTHERS)],
        )
        taken = frozenset(label.casefold() for key, label in saved.state.labels.items() if key != number)
        drafts.append(_Draft(number, call, [documents[row].id for row in own], taken))
    return drafts


def _cut(text: str, tokens: int) -> str:
    """Return as much of a text, on one line, as takes so many tokens in JSON by their estimate."""
    from retriever.encoders.answers.wire import beginning, estimated_tokens, one_line

    line = beginning(one_line(text), tokens)
    if estimated_tokens(json.dumps(line, ensure_ascii=False)) > tokens + 2:
        line = beginning(line, tokens // 2)  # quotation marks and backslashes take two characters each
    return line
