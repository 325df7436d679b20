"""Teach a question anew under other encoders, from the examples that are kept with what it was taught."""

from functools import partial

from retriever.core.errors import EncoderError, InputError
from retriever.index.sources.catalog import Sources
from retriever.index.sources.making import Making
from retriever.index.sources.taught import Taught
from retriever.index.teaching.examples import FoundExamples, require_enough
from retriever.index.teaching.teacher import learn_question, question_of
from retriever.store.database import Store


def taught_again(before: Taught, sources: Sources, making: Making) -> Taught | None:
    """Learn a question from the same examples under other encoders; None where these were taught by them already.

    Args:
        before: what was taught.
        sources: of the other encoders.
        making: how to read and to report.

    Raises:
        InputError: too few examples are left.
        UsageError: those encoders read the question as the base view.
    """
    question = question_of(sources, before.key.instruction)
    for entry in sources.listed():
        if entry.kind == before.kind and entry.instruction == question.key.instruction:
            kept = sources.open(entry)
            if isinstance(kept, Taught) and kept.examples == before.examples:
                return None
    examples = _still_there(making.store, before)
    learn = partial(learn_question, sources, question, examples, making)
    try:
        return learn(tune=bool(before.document.get("tuned")) and sources.encoders.separate)
    except EncoderError:  # this base encoder cannot be fine-tuned
        return learn()


def _still_there(store: Store, before: Taught) -> FoundExamples:
    """Return the examples whose documents are still there.

    Raises:
        InputError: these are too few to learn from.
    """
    answers = before.examples
    live = sorted(answers.keys() & set(store.documents.live_contents().tolist()))
    examples = FoundExamples(live, [answers[content_id] for content_id in live])
    try:
        require_enough(examples.answers)
    except InputError as error:
        gone = len(answers) - len(live)
        raise InputError(f"{gone} of its {len(answers)} examples were deleted. {error.message}") from error
    return examples
