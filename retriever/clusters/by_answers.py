"""Groups of answers in words, and where each answer goes.

Where there are few different answers, each is a group. Else the language model that gave them writes categories, in one
call over the different answers; where it cannot, groups are of similar answers. Somebody's own categories take the
place of both. An answer that nobody put anywhere goes where the nearest one is, if that is clear; the language model is
asked about the rest by the names of the categories. What says nothing is a group of its own, never mixed in.

TnT-LLM (Wan et al., KDD 2024, arXiv 2403.12173) writes a taxonomy of summaries likewise, and LLooM (Lam et al., CHI
2024) gives each theme a criterion and shows what meets none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256

import numpy as np

from retriever.clusters.arithmetic.choice import Choice, choose_k
from retriever.clusters.arithmetic.consensus import Stability, directions
from retriever.clusters.arithmetic.kmeans import spherical_kmeans
from retriever.clusters.categories import Category
from retriever.clusters.clustering import Cluster, Clustering, ClusterRequest, Made
from retriever.clusters.describing import described_anew
from retriever.clusters.material import Material
from retriever.clusters.phrases import Phrase, counted, key_of
from retriever.clusters.placing import Answered, Nearest, Places, group_of
from retriever.clusters.references import NONE
from retriever.core.errors import RetrieverError
from retriever.core.types import Embeddings
from retriever.core.unanswered import EMPTY, NOT_SAID, NOTHING, empty_answer, folded
from retriever.encoders.answers.answerer import C
from retriever.encoders.answers.call import RefusableCall
from retriever.encoders.answers.categories import MOST, OTHER, CategoriesCall, PlacingCall
from retriever.encoders.answers.places import METHOD
from retriever.encoders.answers.wire import addresses_reader
from retriever.index.opened import Opened
from retriever.index.sources.filling import encode_texts
from retriever.index.sources.source import Source

A_CALL = 150
"""Different answers of a call at most, the commonest first."""

_MEANINGS = {
    OTHER: "Answers that belong to no other group.",
    NOTHING: "The text says that there is none.",
    NOT_SAID: "The text does not answer the question.",
}


@dataclass(slots=True)
class _Groups:
    """Groups under way.

    Attributes:
        categories: with name and definition.
        of: the group of each answer, by its key; `NONE` for one that belongs to none.
        sure: the keys of the answers that were put there, not only near to others that were.
        made: how the groups came about.
        faults: why a language model wrote or placed less than it was to.
        choice: how their number was chosen, where they are of similar answers.
        stability: how well such groups hold.
        names: gives those of the categories that somebody named, each taken as an answer, (k, dim); None of others.
    """

    categories: list[Category] = field(default_factory=list)
    of: dict[str, int] = field(default_factory=dict)
    sure: set[str] = field(default_factory=set)
    made: Made = "answers"
    faults: list[str] = field(default_factory=list)
    choice: Choice | None = None
    stability: Stability | None = None
    names: Callable[[], Embeddings] | None = None

    def put(self, answer: str, group: int, *, sure: bool = True) -> None:
        """Put an answer to a group."""
        self.of[key_of(answer)] = group
        if sure:
            self.sure.add(key_of(answer))

    def extend(self, categories: Sequence[Category]) -> None:
        """Add categories, each with the answer that is its name."""
        for number, category in enumerate(categories, len(self.categories)):
            self.put(category.name, number)
        self.categories += categories


@dataclass(frozen=True, slots=True)
class _Asking:
    """The language model that gave the answers; it writes and places nothing where it is at no chat endpoint."""

    opened: Opened
    source: Source

    @property
    def possible(self) -> bool:
        return self.source.name.startswith(f"{METHOD}:")

    def send(self, call: RefusableCall[C], answers: int, groups: _Groups) -> C | None:
        """Return the checked reply to a call; None, with the fault noted, where there is none that can be used."""
        opened = self.opened
        try:
            checked, fault = opened.asker.send(self.source.name, call, answers, opened.budget)
        except RetrieverError as error:  # the answers are here, and who gave them cannot be asked now
            checked, fault = None, str(error)
        groups.faults += [fault] * bool(fault)
        return None if fault else checked


def by_answers(opened: Opened, shown: Source, material: Material, request: ClusterRequest) -> Clustering:
    """Group the rows of a question that is answered in words.

    Args:
        opened: the index.
        shown: of the question.
        material: the rows that are answered, one or more.
        request: with categories or a number of groups, where somebody gave these.
    """
    answers = [words[0] for words in material.answers]
    asking, groups = _Asking(opened, shown), _Groups()
    phrases = [phrase for phrase in counted(answers) if phrase.text not in EMPTY]
    if request.into:
        groups.made = "names"
        groups.extend(request.into)
        groups.names = cache(lambda: encode_texts([shown], [category.name for category in request.into])[0])
    elif len(phrases) <= (request.k or MOST):
        groups.extend([Category(phrase.text) for phrase in phrases])
    elif request.k == 1 or not (asking.possible and _write(asking, phrases, request, groups)):
        _part(material, answers, request, groups)
    _place(asking, material, answers, phrases, groups)
    fault = " ".join(dict.fromkeys(groups.faults))
    made = _clustering(material, shown, request, answers, groups)
    return replace(made, by=shown.name if made.made == "language model" else "", fault=fault)


def by_lessons(material: Material, shown: Source, request: ClusterRequest, learned: Sequence[str]) -> Clustering:
    """Group rows by the answers that examples taught: each row by the likeliest, which is the first of its words.

    Args:
        material: rows of the question's view.
        shown: the view.
        request: what is asked.
        learned: the answers.
    """
    groups = _Groups([Category(answer) for answer in learned], made="lessons")
    groups.of = {folded(answer): number for number, answer in enumerate(learned)}
    groups.sure = set(groups.of)
    return _clustering(material, shown, request, [words[0] for words in material.answers], groups)


def _write(asking: _Asking, phrases: Sequence[Phrase], request: ClusterRequest, groups: _Groups) -> bool:
    """Take the categories that the language model writes; return whether there are any.

    Those that say the same are one. An answer that seems to speak to the model is not sent. Of equally common answers
    the hash decides which are sent: documents of a kind often stand together.
    """
    sent = [phrase for phrase in phrases if not addresses_reader(phrase.text)]
    if len(sent) > A_CALL:
        sent = sorted(sent, key=lambda phrase: (-phrase.rows, sha256(phrase.text.encode()).digest()))[:A_CALL]
    most = min(request.k or MOST, MOST)
    texts, rows = [phrase.text for phrase in sent], [phrase.rows for phrase in sent]
    checked = asking.send(CategoriesCall(asking.source.instruction, texts, rows, most), len(sent), groups)
    if checked is None:
        return False
    groups.made = "language model"
    numbers: dict[str, int] = {}
    for category in checked.categories:
        number = numbers.setdefault(key_of(category.name), len(numbers))
        if number == len(groups.categories):
            groups.categories.append(Category(category.name, category.definition))
        for row in category.rows:
            groups.put(texts[row], number)
    for row in checked.other:
        groups.put(texts[row], NONE)
    return True


def _part(material: Material, answers: Sequence[str], request: ClusterRequest, groups: _Groups) -> None:
    """Make groups of similar answers by k-means, without those that say nothing; titles come later."""
    rows = [row for row, answer in enumerate(answers) if key_of(answer) not in EMPTY]
    vectors = material.vectors[rows]
    groups.choice = choose_k(vectors) if request.k is None else None
    k = request.k if groups.choice is None else groups.choice.k
    partition = spherical_kmeans(vectors, min(len(rows), k or 1))
    groups.made, groups.stability = "similar answers", partition.stability
    groups.categories = [Category(f"group {number}") for number in range(partition.k)]
    for row, number in zip(rows, partition.labels.tolist(), strict=True):
        groups.put(answers[row], number)


def _place(
    asking: _Asking, material: Material, answers: Sequence[str], phrases: Sequence[Phrase], groups: _Groups
) -> None:
    """Put the answers that belong nowhere yet to groups: to the nearest answer's, or where the language model says.

    Where no language model can be asked, the names that somebody gave count as answers.
    """
    first: dict[str, int] = {}
    for row, answer in enumerate(answers):
        first.setdefault(key_of(answer), row)
    new = [phrase.text for phrase in phrases if key_of(phrase.text) not in groups.of]
    known = [key for key, group in groups.of.items() if key in first and group != NONE and key not in EMPTY]
    near = Nearest(
        material.vectors[[first[key] for key in known]], np.array([groups.of[key] for key in known], dtype=np.int64)
    )
    if groups.names is not None and new and not asking.possible:
        empties = [number for number, category in enumerate(groups.categories) if empty_answer(category.name)]
        near = near.beside(groups.names(), empties)
    unclear, comparable = [], not asking.possible or _all_known(groups, known)
    for answer in new:
        group, clear = near.place(material.vectors[first[key_of(answer)]])
        clear = clear and comparable
        if clear or not asking.possible:
            groups.put(answer, group if clear else NONE, sure=False)
        else:
            unclear.append(answer)
    for start in range(0, len(unclear), A_CALL):
        _place_by_name(asking, unclear[start : start + A_CALL], groups)


def _all_known(groups: _Groups, known: Sequence[str]) -> bool:
    """Return whether every category that names something has one of some answers, so that nearness can tell them apart.

    A category that somebody named may have none yet.
    """
    wanted = {number for number, category in enumerate(groups.categories) if not empty_answer(category.name)}
    return wanted <= {groups.of[key] for key in known}


def _place_by_name(asking: _Asking, answers: Sequence[str], groups: _Groups) -> None:
    """Let the language model put answers to categories by their names."""
    categories = [(category.name, category.description) for category in groups.categories]
    sent = [answer for answer in answers if not addresses_reader(answer)]
    call = PlacingCall(asking.source.instruction, categories, sent)
    checked = asking.send(call, len(sent), groups) if sent else None
    for row, number in (checked.places if checked else {}).items():
        groups.put(sent[row], number if number < len(categories) else NONE)


def _clustering(
    material: Material, shown: Source, request: ClusterRequest, answers: Sequence[str], groups: _Groups
) -> Clustering:
    """Return rows in the groups of their answers: the largest first, or as somebody named them, the empty ones last."""
    named = {folded(category.name): number for number, category in enumerate(groups.categories)}
    belongs = [_group(answer, groups, named) for answer in answers]
    order = _order(belongs, groups)
    numbers = np.array([order.index(each) for each in belongs], dtype=np.int64)
    places = {document.id: (number,) for document, number in zip(material.documents, numbers.tolist(), strict=True)}
    keyed = {key: order.index(number) for key, number in groups.of.items() if number in order}
    middles = directions(material.vectors, numbers, len(order))
    if groups.names is not None:  # later documents find a category that is empty by its name
        for number in np.setdiff1d(np.arange(len(order)), numbers).tolist():
            middles[number] = groups.names()[order[number]]
    besides = [(answer, each) for answer, each in zip(answers, belongs, strict=True) if isinstance(each, str)]
    keyed |= {key_of(answer): order.index(each) for answer, each in besides}
    return Clustering(
        request=request,
        view=shown.view_id,
        material=material,
        clusters=_clusters(material, request, order, places, [_is_sure(answer, groups) for answer in answers], groups),
        places=places,
        placing=Answered(
            keyed,
            middles,
            order.index(OTHER) if OTHER in order else named.get(OTHER, NONE),
        ),
        made=groups.made,
        choice=groups.choice,
        stability=groups.stability,
    )


def _group(answer: str, groups: _Groups, named: Mapping[str, int]) -> int | str:
    """Return the group of an answer: its number, or the name of one that is there besides those."""
    key, number = key_of(answer), group_of(answer, groups.of)
    if number is not None and number != NONE:
        return number
    besides = key if key in EMPTY else OTHER
    return named.get(besides, besides)


def _is_sure(answer: str, groups: _Groups) -> bool:
    """Return whether an answer was put to its group, not only near to others that were."""
    return key_of(answer) in groups.sure or folded(answer) in groups.sure


def _order(belongs: Sequence[int | str], groups: _Groups) -> list[int | str]:
    """Return the groups in the order that they are shown, given those of all rows."""
    sizes = {number: belongs.count(number) for number in range(len(groups.categories))}
    numbers = list(sizes)
    if groups.made not in ("names", "lessons"):
        numbers = sorted((number for number in sizes if sizes[number]), key=lambda number: -sizes[number])
    return [*numbers, *(name for name in _MEANINGS if name in belongs)]


def _clusters(
    material: Material,
    request: ClusterRequest,
    order: Sequence[int | str],
    places: Places,
    sure: Sequence[bool],
    groups: _Groups,
) -> list[Cluster]:
    """Return the groups in their order, described; of similar answers the titles say how far they hold."""
    described = described_anew(material, places, range(len(order)), request.instruction)
    clusters = []
    for number, key in enumerate(order):
        cluster = described[number]
        if isinstance(key, str):
            cluster = replace(cluster, label=key, description=_MEANINGS[key], holds=1.0)
        elif groups.made != "similar answers":
            kept = [sure[row] for row, document in enumerate(material.documents) if number in places[document.id]]
            category, holds = groups.categories[key], sum(kept) / len(kept) if kept else 1.0
            cluster = replace(cluster, label=category.name, description=category.description, holds=holds)
        clusters.append(cluster)
    return clusters
