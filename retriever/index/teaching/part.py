"""`index.teaching`: whether a question is followed, and examples that teach what it means."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest

import numpy as np

from retriever.core.errors import InputError
from retriever.core.results import Lessons
from retriever.core.text import normal_instruction
from retriever.core.types import Document
from retriever.core.verdicts import Verdict
from retriever.encoders.answers.places import METHOD, find_place
from retriever.index.completing import judge_views
from retriever.index.generations import build_outgrown
from retriever.index.indexing import OnIndexing
from retriever.index.opened import Opened
from retriever.index.sources.answers import Answers
from retriever.index.sources.catalog import Listed, current, serving, sources_of
from retriever.index.sources.limits import Spent
from retriever.index.sources.making import Making, place
from retriever.index.teaching.asking import Asked, Grouping, clear_answers, worth_answering
from retriever.index.teaching.examples import (
    LEAST,
    Example,
    contents_of,
    few_examples,
    found_examples,
    given_examples,
    kept_examples,
    with_labels,
)
from retriever.index.teaching.labels import KeptLabels, Labels, are_kept, change_labels, kept_labels
from retriever.index.teaching.readers import ReaderPlace, give_answers, known_readers, serve_by
from retriever.index.teaching.teacher import learn_question, question_of
from retriever.index.teaching.unanswered import AnswersStatus, answered_contents, unanswered_hits
from retriever.index.verdicts.diagnosis import Diagnosis, TextPair, diagnose
from retriever.index.verdicts.judging import wants_judging
from retriever.index.verdicts.stored import stored_verdict
from retriever.index.view_upkeep import clear_dropped
from retriever.store.views import View


class Teaching:
    """The part of an index (`retriever.workspace.Index`) that learns what a question means.

    Args:
        opened: the index.
        group: puts vectors into groups.
    """

    def __init__(self, opened: Opened, group: Grouping) -> None:
        self._opened = opened
        self._group = group

    def teach(
        self,
        instruction: str,
        examples: Iterable[Example | Mapping[str, object] | tuple[str, str]] | None = None,
        *,
        tune: bool = False,
        progress: OnIndexing | None = None,
    ) -> Lessons:
        """Teach a question by examples; searches, clusters and comparisons under it use what was learned at once.

        A head is learned on the vectors that the view has, and gives every text of it another vector, in which texts of
        one answer lie together. Only examples that the view lacks, and the answers' own names, are read. What was
        taught before of the same question is replaced, and so are the examples that the index keeps for it.

        Without examples, those that the index keeps for the question are learned (`labels`). Answers with fewer than
        three are left out then; `Lessons.unlearned` names them.

        With ``tune`` the plain reader is fine-tuned on the examples besides, and reads every text of the view anew,
        where that helps with examples left out: minutes, for questions that are not followed.

        Args:
            instruction: the question.
            examples: pairs of document id and answer, mappings with ``id`` or ``text`` and ``answer``, or `Example`s;
                three or more an answer. None for those that the index keeps.
            tune: whether to fine-tune the plain reader too.
            progress: called with the growing report while examples are read, and of fine-tuning, whose steps
                ``in_hand`` counts where ``tuning`` is true. What it raises ends this, and nothing is changed.

        Raises:
            InputError: a document or text is not in the index, a text has two answers, an answer has too few examples,
                all have the same, or a row is no example. Nothing is changed then.
            EncoderError: the plain reader cannot be fine-tuned, which ``tune`` asks for, or the index has none.
            UsageError: the question is empty or the default one, or there are too many examples.
            IndexLockedError: another process writes to this index.
        """
        opened, sources = self._opened, self._opened.sources
        question = question_of(sources, instruction)
        kept = self._labels(instruction)
        if examples is None:
            resolved = kept_examples(opened.store, kept)
        else:
            resolved = found_examples(opened.store, given_examples(examples))
            given = dict(zip(resolved.content_ids.tolist(), resolved.answers, strict=True))
            kept.replace_examples(given)
            resolved = replace(resolved, answers=list(kept.examples.values()))
        resolved = with_labels(resolved, kept)
        with opened.writing("teach") as run_id:
            learned = learn_question(sources, question, resolved, Making(opened.store, run_id, progress), tune=tune)
            if examples is not None:
                self._change(instruction, lambda labels: labels.replace_examples(given))
            view = place(opened.store, sources, learned)
            build_outgrown(opened.store, [view], opened.path, opened.device)
            clear_dropped(opened.store, opened.path)
            stored = opened.store.sources.get(view.view_id)
        return learned.lessons(view.view_id, stored.created if stored else "")

    def forget(self, instruction: str) -> None:
        """Forget what a question was taught; what served it before serves again, and no model is loaded.

        Its labels stay with the index: `teach` without examples learns them again.

        Raises:
            InputError: it was taught nothing.
            IndexLockedError: another process writes to this index.
        """
        opened, made = self._opened, self._made(instruction)
        if made is None:
            raise InputError(
                f"{instruction.strip()!r} was taught nothing.", hint="`retriever views` shows what was taught."
            )
        with opened.writing("forget"):
            self._change(instruction, lambda labels: None)  # keeps the examples of an index that has no labels yet
            opened.store.views.drop(made.view.view_id)
            clear_dropped(opened.store, opened.path)

    def lessons(self, instruction: str) -> Lessons | None:
        """Return what a question was taught; None for nothing. No model is loaded."""
        made = self._made(instruction)
        return None if made is None else sources_of(self._opened.store).lessons(made)

    def labels(self, instruction: str) -> Labels:
        """Return the answers of a question and the documents that were labeled, those that are still there."""
        store, kept = self._opened.store, self._labels(instruction)
        groups = store.documents.expand(sorted({*kept.examples, *kept.skipped}))
        ids = {content: min(document.id for document in group) for content, group in groups.items()}
        return Labels(
            kept.answers,
            {ids[content]: answer for content, answer in kept.examples.items() if content in ids},
            [ids[content] for content in sorted(kept.skipped) if content in ids],
        )

    def name_answers(self, instruction: str, answers: Mapping[str, str]) -> None:
        """Keep the answers of a question with the index, in the place of those before; answers with examples stay.

        Args:
            instruction: the question.
            answers: the description of every answer by its name, empty for none. Descriptions are learned with names.
        """
        self._change(instruction, lambda labels: labels.name(answers))

    def label(self, instruction: str, id: str, answer: str) -> None:
        """Keep a document as an example of an answer to a question; nothing is learned before `teach`.

        Args:
            instruction: the question.
            id: of the document; texts that equal its own count as the same example.
            answer: `NONE_OF_THESE` where it gives none of the answers. One that is new becomes an answer.

        Raises:
            InputError: there is no such document, or the answer is blank or too long.
        """
        (example,) = given_examples([(id, answer)])
        (content,) = contents_of(self._opened.store, [example])
        self._change(instruction, lambda labels: labels.add(content, example.answer))

    def skip(self, instruction: str, id: str) -> None:
        """Offer a document for a question no more; errors as `label`."""
        (content,) = contents_of(self._opened.store, [Example("", id)])
        self._change(instruction, lambda labels: labels.skip(content))

    def unlabel(self, instruction: str, id: str) -> None:
        """Take back the label of a document, or that it is skipped; errors as `label`."""
        (content,) = contents_of(self._opened.store, [Example("", id)])
        self._change(instruction, lambda labels: labels.remove(content))

    def read_by(self, instruction: str, reader: str) -> None:
        """Let a reader serve a question from now on, in searches, clusters and categories.

        Args:
            instruction: the question.
            reader: ``chat:MODEL`` or ``chat:URL#MODEL`` for a language model behind an endpoint, ``given`` for answers
                that are handed in alone, ``default`` for the index's encoders.

        Raises:
            UsageError: there is no question.
            EncoderError: the reader is unknown, or cannot be reached when the index meets it.
        """
        serve_by(self._opened, instruction, reader)

    def readers(self) -> list[str]:
        """Return the names of the language models that have read for the index."""
        return sorted(known_readers(self._opened.store))

    def reader(self, instruction: str) -> str:
        """Return who answers a question in words: a language model's name, or ``given``; empty where encoders do."""
        sources = sources_of(self._opened.store)
        shown = serving(sources.listed(), instruction)
        return sources.encoder_name(shown) if shown is not None and shown.costly else ""

    def place(self, reader: str) -> ReaderPlace:
        """Return where a reader gets texts, and whether they may be sent there; nobody is asked.

        Raises:
            EncoderError: the name is of no endpoint that may be used.
        """
        if not reader.startswith(f"{METHOD}:"):
            return ReaderPlace(reader, "", local=True, allowed=True)
        place = find_place(reader)
        allowed = place.loopback or place.host in self._opened.permit.hosts()
        return ReaderPlace(reader, place.host, place.loopback, allowed)

    def allow(self, host: str) -> None:
        """Allow texts of the index to be sent to a host from now on."""
        self._opened.permit.allow(host)

    @property
    def spent(self) -> Spent:
        """What language models were asked since the index was opened."""
        return self._opened.permit.spent

    def give_answers(self, instruction: str, answers: Mapping[str, str | None]) -> int:
        """Take answers to a question by document id; they go before what a language model answers.

        A question that no language model reads is served by them alone from then on, as far as they reach. None takes
        back an answer that was handed in.

        Returns:
            How many texts they are of.

        Raises:
            InputError: there is no such document, an answer is blank or no phrase (of more than twelve words or 160
                characters), equal texts have two answers, or a document is read by its sentences.
            UsageError: there is no question.
            IndexLockedError: another process writes to this index.
        """
        with self._opened.writing("answer"):
            return give_answers(self._opened, instruction, answers)

    def answers(self, instruction: str) -> dict[str, str]:
        """Return the answers in words that serve a question, by document id; none where an encoder reads for it."""
        store, sources = self._opened.store, self._opened.sources
        source = sources.of(instruction)
        if not isinstance(source, Answers):
            return {}
        answers = store.answers.get(source.by.fingerprint, source.key.instruction, source.contents(sources.held))
        documents = store.documents.expand(sorted(answers))
        return {document.id: answers[content] for content, group in documents.items() for document in group}

    def answers_status(self, instruction: str) -> AnswersStatus:
        """Return how far a question is answered in words.

        Raises:
            UsageError: there is no question.
        """
        store, sources = self._opened.store, self._opened.sources
        answered, live = answered_contents(self._opened, instruction), store.documents.live_contents()
        shown = serving(sources.listed(), instruction)
        return AnswersStatus(
            "" if shown is None else sources.encoder_name(shown),
            len(np.intersect1d(answered, live)),
            len(live),
            0 if shown is None else store.vectors.count_live(shown.view.view_id),
        )

    def texts_to_answer(self, instruction: str, count: int = 10, query: str = "") -> list[Document]:
        """Return texts without an answer to a question that are worth one most, for `give_answers`; none is read.

        Args:
            instruction: the question.
            count: how many; there are fewer where fewer are left.
            query: the best hits of this query are returned; without one, texts spread over the corpus.

        Raises:
            UsageError: there is no question.
        """
        if query.strip():
            answered_ids = answered_contents(self._opened, instruction)
            return unanswered_hits(self._opened, query, count, set(answered_ids.tolist()))
        store = self._opened.store
        groups = store.documents.expand(answered_contents(self._opened, instruction)).values()
        answered = [document.id for group in groups for document in group]
        return [request.document for request in self._worth_answering(instruction, count, answered)]

    def worth_answering(self, instruction: str, count: int = 10, answered: Collection[str] = ()) -> list[Asked]:
        """Return the documents that say most about a question once they are answered, for `teach`.

        Up to two thirds of them are what a search without the question finds for the named answers that have few
        examples, by name and description; only these searches load a model. The others are spread over what
        the index holds. Documents that are labeled or skipped are not among them.

        Args:
            instruction: the question.
            count: how many; there are fewer where the index holds fewer texts.
            answered: ids of further documents that are answered already.
        """
        labels = self.labels(instruction)
        answered = {*answered, *labels.examples, *labels.skipped}
        found = self._like_answers(few_examples(labels), answered)[: max(0, 2 * count // 3)]
        rest = self._worth_answering(instruction, count - len(found), answered | {document.id for document in found})
        return [*(Asked(document) for document in found), *rest]

    def _like_answers(self, answers: Sequence[str], answered: Collection[str]) -> list[Document]:
        """Return the best hits of answers, the first of each, then the second, and so on; none twice."""
        if not answers:
            return []
        known = set(self._opened.store.documents.contents_of(answered).tolist())
        hits = [unanswered_hits(self._opened, answer, LEAST, known) for answer in answers]
        in_turn = filter(None, chain.from_iterable(zip_longest(*hits)))
        return list({document.text: document for document in in_turn}.values())

    def _worth_answering(self, instruction: str, count: int, answered: Collection[str]) -> list[Asked]:
        store = self._opened.store
        sources = sources_of(store)
        among = sources.listed()
        shown = serving(among, instruction)
        if shown is None or store.vectors.count_live(shown.view.view_id) < len(store.documents.live_contents()):
            shown = serving(among, "")  # a view that is not whole holds the texts that were indexed or found first
        return [] if shown is None else worth_answering(store, sources, shown, self._group, count, answered)

    def clear_answers(self, instruction: str, ids: Collection[str]) -> dict[str, str] | None:
        """Return the learned answers of those documents that clearly give one, by id; None where nothing was taught.

        Documents whose likeliest answer is hardly likelier than the others, or is `NONE_OF_THESE`, are left out.
        """
        store = self._opened.store
        sources = sources_of(store)
        shown = serving(sources.listed(), instruction)
        return None if shown is None else clear_answers(store, sources, shown, ids)

    def verdict(self, instruction: str) -> Verdict | None:
        """Return whether the model follows an instruction, as it was found; None where nobody has looked yet."""
        view = self._view_of(instruction)
        return None if view is None else stored_verdict(self._opened.store, view.view_id)

    def wants_verdict(self, instruction: str) -> bool:
        """Whether an instruction was asked of texts enough to tell if it is followed, and nobody has looked yet."""
        view = self._view_of(instruction)
        return view is not None and wants_judging(self._opened.store, view)

    def judge(self, instruction: str, *, progress: OnIndexing | None = None) -> Verdict | None:
        """Find out whether the model follows an instruction, by a sample of the index's texts, and store it.

        What is stored already is returned. Else the sample is read, unless the view holds it, which takes seconds.

        Args:
            instruction: of the view.
            progress: called with a report whose ``in_hand`` and ``expected`` are texts; what it raises ends this.

        Returns:
            The verdict; None of the base view, and where the index has too few texts.
        """
        view, opened = self._view_of(instruction), self._opened
        if view is None:
            return None
        return judge_views(opened, [view], progress).get(view.view_id) or stored_verdict(opened.store, view.view_id)

    def diagnose(
        self, instruction: str, pairs: Sequence[TextPair] = (), *, progress: OnIndexing | None = None
    ) -> Diagnosis:
        """Return the verdict on a question with what it rests on; it is found and stored first where there is none.

        A question that hardly any text was read under is read for a sample of them, which is kept.

        Args:
            instruction: the question.
            pairs: texts that are the same under it, or not; they decide where there are any.
            progress: called with the growing report; what it raises ends this.

        Raises:
            UsageError: the question is empty or too long, there are too few texts to compare, or the pairs are all of
                one kind.
        """
        return diagnose(self._opened, instruction, pairs, progress=progress)

    def _labels(self, instruction: str) -> KeptLabels:
        return kept_labels(self._opened.store, normal_instruction(instruction), self._learned(instruction))

    def _change(self, instruction: str, change: Callable[[KeptLabels], object]) -> None:
        change_labels(self._opened.store, normal_instruction(instruction), self._learned(instruction), change)

    def _learned(self, instruction: str) -> Mapping[int, str]:
        """Return the examples that a question was taught by, by content id; none where its labels are kept."""
        made = None if are_kept(self._opened.store, normal_instruction(instruction)) else self._made(instruction)
        return {} if made is None else sources_of(self._opened.store).open(made).examples

    def _view_of(self, instruction: str) -> View | None:
        """Return the view of a question, found without a model; None of the base view, and where there is none.

        A question that was taught has none here: what it was taught says how far that is followed.
        """
        entry = serving(current(self._opened.store), instruction)
        return None if entry is None or not entry.instruction or entry.row is not None else entry.view

    def _made(self, instruction: str) -> Listed | None:
        """Return the made view that serves a question; None where the encoder's own does."""
        entry = serving(current(self._opened.store), instruction)
        return None if entry is None or entry.row is None else entry
