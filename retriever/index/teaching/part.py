"""`index.teaching`: whether a question is followed, and examples that teach what it means."""

from collections.abc import Collection, Mapping, Sequence

from retriever.core.errors import InputError, UsageError
from retriever.core.lessons import Lessons
from retriever.core.results import IndexingReport, OnIndexing
from retriever.core.text import normal_instruction
from retriever.core.types import Document
from retriever.core.verdicts import Verdict
from retriever.index.asking.asker import ReaderPlace, place_of
from retriever.index.asking.limits import Spent
from retriever.index.completing import ask, judge_views
from retriever.index.encoding import MEMORY
from retriever.index.forecast import counting
from retriever.index.opened import Opened
from retriever.index.sources.answers import of_model
from retriever.index.sources.encoders import encoder_descriptions
from retriever.index.sources.taught import Taught
from retriever.index.teaching import unanswered
from retriever.index.teaching.active_learning import Grouping, Suggestion, clear_answers, worth_answering
from retriever.index.teaching.answering import PERSON, choose_reader, give_answers, keep_answers, keep_examples
from retriever.index.teaching.answering import question_of as question_of_answers
from retriever.index.teaching.examples import Example, GivenExamples, contents_of, few_examples, given_examples
from retriever.index.teaching.labels import Labels, kept_labels, labels_of, name_answers, skip
from retriever.index.teaching.teacher import teach
from retriever.index.verdicts.diagnosis import Diagnosis, TextPair, diagnose
from retriever.index.verdicts.judging import wants_judging
from retriever.index.verdicts.stored import stored_verdict
from retriever.index.view_upkeep import clear_dropped
from retriever.store.views import View


class Teaching:
    """The part of an index (`retriever.workspace.Index`) that learns what a question means; ``group`` makes groups."""

    def __init__(self, opened: Opened, group: Grouping) -> None:
        self._opened = opened
        self._group = group

    def teach(
        self,
        instruction: str,
        examples: GivenExamples | None = None,
        *,
        tune: bool = False,
        progress: OnIndexing | None = None,
    ) -> Lessons:
        """Teach a question by examples; searches, clusters and comparisons under it use what was learned at once.

        A head is learned on the vectors that the view has, and gives every text of it another vector, in which texts of
        one answer lie together. Only examples that the view lacks, and the answers' own names, are read. What was
        taught before of the same question is replaced. Examples are answers that a person gave: the index keeps them
        with the others.

        Without examples, those that the index keeps for the question are learned (`labels`). Answers with fewer than
        three are left out then; `Lessons.unlearned` names them.

        With ``tune`` the base encoder is fine-tuned on the examples besides, and reads every text of the view anew,
        where that helps with examples left out: minutes, for questions that are not followed.

        Args:
            instruction: the question.
            examples: pairs of document id and answer, mappings with ``id`` or ``text`` and ``answer``, or `Example`s;
                three or more an answer. None for those that the index keeps.
            tune: whether to fine-tune the base encoder too.
            progress: called with the growing report while examples are read, and of fine-tuning, whose steps
                ``in_hand`` counts where ``tuning`` is true. What it raises ends this, and nothing is changed.

        Raises:
            InputError: a document or text is not in the index, a text has two answers, an answer has too few examples,
                all have the same, or a row is no example. Nothing is changed then.
            EncoderError: the base encoder cannot be fine-tuned, which ``tune`` asks for, or the index has none.
            UsageError: the question is empty or the default one, or there are too many examples.
            IndexLockedError: another process writes to this index.
        """
        teach(self._opened, instruction, examples, tune=tune, progress=progress)
        lessons = self.lessons(instruction)
        if lessons is None:
            raise InputError(f"{normal_instruction(instruction)!r} was forgotten meanwhile.", hint="Teach it again.")
        return lessons

    def forget(self, instruction: str) -> None:
        """Forget what a question was taught; what served it before serves again, and no model is loaded.

        Its labels stay with the index: `teach` without examples learns them again.

        Raises:
            InputError: it was taught nothing.
            IndexLockedError: another process writes to this index.
        """
        opened, question = self._opened, normal_instruction(instruction)
        every = opened.known_sources.visible(lambda view: True)  # the encoders before know of it too
        taught = [source for source in every if isinstance(source, Taught) and source.instruction == question]
        if self._taught(instruction) is None:
            raise InputError(
                f"{instruction.strip()!r} was taught nothing.", hint="`retriever views` shows what was taught."
            )
        with opened.writing("forget"):
            opened.store.views.drop(*(source.view_id for source in taught))
            clear_dropped(opened.store, opened.path)

    def lessons(self, instruction: str) -> Lessons | None:
        """Return what a question was taught; None for nothing. No model is loaded."""
        taught = self._taught(instruction)
        return None if taught is None else taught.lessons()

    def labels(self, instruction: str) -> Labels:
        """Return the answers of a question and the documents that were labeled, those that are still there."""
        return labels_of(self._opened.store, normal_instruction(instruction))

    def name_answers(self, instruction: str, answers: Mapping[str, str]) -> None:
        """Keep the answers of a question with the index, in the place of those before; answers with examples stay.

        Args:
            instruction: the question.
            answers: the description of every answer by its name, empty for none. Descriptions are learned with names.
        """
        name_answers(self._opened.store, normal_instruction(instruction), answers)

    def label(self, instruction: str, id: str, answer: str) -> None:
        """Keep what a person answers to a question about a document; nothing is learned before `teach`.

        It stands before what a language model answers, in hits, filters and reports at once.

        Args:
            instruction: the question.
            id: of the document; texts that equal its own count as the same example.
            answer: `NONE_OF_THESE` where it gives none of the answers. One that is new becomes an answer.

        Raises:
            InputError: there is no such document, or the answer is blank or too long.
        """
        (example,) = given_examples([(id, answer)])
        (content,) = contents_of(self._opened.store, [example])
        question = normal_instruction(instruction)
        spelled = kept_labels(self._opened.store, question).spelled(example.answer)
        keep_examples(self._opened, question, {content: spelled})

    def skip(self, instruction: str, id: str) -> None:
        """Offer a document for a question no more; errors as `label`."""
        self._take_back(instruction, id, skipped=True)

    def unlabel(self, instruction: str, id: str) -> None:
        """Take back the label of a document, or that it is skipped; errors as `label`."""
        self._take_back(instruction, id, skipped=False)

    def read_by(self, instruction: str, reader: str) -> None:
        """Let a reader serve a question from now on, in searches, clusters and categories.

        Args:
            instruction: the question.
            reader: ``chat:MODEL`` or ``chat:URL#MODEL`` for a language model behind an endpoint, ``given`` for answers
                that are handed in alone, ``default`` for the index's encoders.

        Raises:
            UsageError: there is no question.
            ConsentError: the reader is at a host that nobody allowed (`allow`); nothing was sent.
            EncoderError: the reader is unknown, or cannot be reached when the index meets it.
        """
        choose_reader(self._opened, instruction, reader)

    def readers(self) -> list[str]:
        """Return the names of the language models that have read for the index."""
        return self._opened.store.language_models.names()

    def reader(self, instruction: str) -> str:
        """Return who answers a question in words: a language model's name, or ``given``; empty where encoders do."""
        source = self._opened.known_sources.active(instruction)
        return source.name if source is not None and source.in_words else ""

    def place(self, reader: str) -> ReaderPlace:
        """Return where a reader or an encoder gets texts, and whether they may be sent there; nobody is asked.

        Raises:
            EncoderError: the name is of no endpoint that may be used.
        """
        return place_of(reader, self._opened.allowed())

    def elsewhere(self) -> list[str]:
        """Return the names of the index's encoders that are behind an endpoint."""
        known = encoder_descriptions(self._opened.store)
        both = () if known is None else (known.question, known.plain)
        return [str(each["name"]) for each in both if each is not None and MEMORY in each]

    def allow(self, host: str) -> None:
        """Allow texts of the index to be sent to a host from now on: this person's choice, kept outside the index.

        Of an index that is not there yet, the choice is kept with its first documents.
        """
        self._opened.allow(host)

    def read(self, instruction: str, *, progress: OnIndexing | None = None) -> None:
        """Have the language model that serves a question read every text that it was not asked about.

        Args:
            instruction: the question.
            progress: called with the growing report; what it raises ends this, and what was answered stays.

        Raises:
            UsageError: no language model serves the question.
            ConsentError: it is at a host that nobody allowed; nothing was sent.
            EncoderError: it cannot be asked; what was answered is kept.
        """
        opened, source = self._opened, self._opened.sources.of(question_of_answers(instruction))
        if of_model(source) is None:
            raise UsageError(
                f"No language model serves {instruction.strip()!r}.",
                hint="`retriever search` with --reader chat:MODEL lets it serve the question.",
            )
        report = IndexingReport(views=[source.view_id], instructions=[source.instruction])
        ask(opened, source, opened.store.documents.live_contents(), counting(report, progress))

    def ask_again(self, instruction: str) -> int:
        """Let texts that language models refused under a question be asked about again; return how many.

        Searches that had settled without them read on.
        """
        store, source = self._opened.store, self._opened.known_sources.active(instruction)
        with store.transaction():
            if source is not None and source.view is not None:
                store.settled.forget(source.view_id)
            return store.answers.forget_refused(normal_instruction(instruction))

    def refusals(self, instruction: str) -> str:
        """Return why the language model that serves a question left texts without an answer, counted; empty for none.

        Raises:
            UsageError: there is no question.
        """
        return unanswered.refusals(self._opened, instruction)

    @property
    def spent(self) -> Spent:
        """The texts and tokens that language models were sent since the index was opened."""
        return self._opened.budget.spent

    def give_answers(self, instruction: str, answers: Mapping[str, str | None], *, author: str = PERSON) -> int:
        """Take answers to a question by document id; they go before what a language model answers.

        A question that no language model reads is served by them alone from then on, as far as they reach. None takes
        back an answer that was handed in.

        Args:
            instruction: the question.
            answers: by document id.
            author: ``person`` or ``program``; a person's answer stands before a program's.

        Returns:
            How many texts they are of.

        Raises:
            InputError: there is no such document, an answer is blank or no phrase (of more than twelve words or 160
                characters), equal texts have two answers, or a document is read by its sentences.
            UsageError: there is no question.
            IndexLockedError: another process writes to this index.
        """
        with self._opened.writing("answer"):
            return give_answers(self._opened, instruction, answers, author)

    def answers(self, instruction: str) -> dict[str, str]:
        """Return the answers in words to a question, by document id: of who serves it, and those that were given."""
        store, known = self._opened.store, unanswered.answered(self._opened, instruction)
        answers = store.answers.get(known.author, known.question, known.contents)
        documents = store.documents.expand(sorted(answers))
        return {document.id: answers[content] for content, group in documents.items() for document in group}

    def answers_status(self, instruction: str) -> unanswered.AnswersStatus:
        """Return how far a question is answered in words.

        Raises:
            UsageError: there is no question.
        """
        return unanswered.answers_status(self._opened, instruction)

    def answered_by(self, instruction: str) -> dict[str, int]:
        """Count the distinct texts that have an answer to a question by who gave it.

        Returns:
            By the name of the language model that serves the question, ``person`` and ``program``, without zeros.

        Raises:
            UsageError: there is no question.
        """
        return unanswered.answered_by(self._opened, instruction)

    def texts_to_answer(self, instruction: str, count: int = 10, query: str = "") -> list[Document]:
        """Return texts without an answer to a question that are worth one most, for `give_answers`; none is read.

        Args:
            instruction: the question.
            count: how many; there are fewer where fewer are left.
            query: the best hits of this query are returned; without one, texts spread over the corpus.

        Raises:
            UsageError: there is no question.
        """
        contents = unanswered.answered(self._opened, instruction).contents
        if query.strip():
            return unanswered.unanswered_hits(self._opened, query, count, set(contents.tolist()))
        suggestions = worth_answering(self._opened, instruction, self._group, count, contents)
        return [suggestion.document for suggestion in suggestions]

    def worth_answering(self, instruction: str, count: int = 10, answered: Collection[str] = ()) -> list[Suggestion]:
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
        ids = {*answered, *labels.examples, *labels.skipped}
        found = unanswered.wanted_hits(self._opened, few_examples(labels), max(0, 2 * count // 3), ids)
        contents = self._opened.store.documents.contents_of({*ids, *(document.id for document in found)})
        rest = worth_answering(self._opened, instruction, self._group, count - len(found), contents)
        return [*map(Suggestion, found), *rest]

    def clear_answers(self, instruction: str, ids: Collection[str]) -> dict[str, str] | None:
        """Return the learned answers of those documents that clearly give one, by id; None where nothing was taught.

        Documents whose likeliest answer is hardly likelier than the others, or is `NONE_OF_THESE`, are left out.
        """
        return clear_answers(self._opened, instruction, ids)

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

    def _take_back(self, instruction: str, id: str, *, skipped: bool) -> None:
        store, question = self._opened.store, normal_instruction(instruction)
        (content,) = contents_of(store, [Example("", id)])
        with store.transaction():
            keep_answers(self._opened, question, {content: None})
            skip(store, question, [content], back=not skipped)

    def _view_of(self, instruction: str) -> View | None:
        """Return the view of a question, found without a model; None of the base view, and where there is none.

        A question that was taught has none here: what it was taught says how far that is followed.
        """
        source = self._opened.known_sources.active(instruction)
        return source.view if source is not None and source.instruction and source.reads else None

    def _taught(self, instruction: str) -> Taught | None:
        """Return what examples taught of a question, whoever serves it."""
        candidates = self._opened.known_sources.candidates(instruction)
        return next((source for source in candidates if isinstance(source, Taught)), None)
