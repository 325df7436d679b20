"""`retriever teach` and `retriever diagnose`: teach a question by examples, and check if the model follows it."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, IndexOption, JsonOption, refuse
from retriever.cli.verdicts import say_ways
from retriever.core.text import printable

if TYPE_CHECKING:
    from retriever.core.lessons import Held, Lessons
    from retriever.index.verdicts.diagnosis import Diagnosis


def teach(
    instruction: Annotated[str, typer.Option(help="Question to teach.")],
    examples: Annotated[
        Path | None,
        typer.Argument(
            help="JSON Lines, CSV or another file, one example per row: id or text of the document, and the answer. "
            "Without a file, the examples that the index keeps for the question are learned."
        ),
    ] = None,
    index: IndexOption = DEFAULT_INDEX,
    tune: Annotated[
        bool, typer.Option("--tune", help="Fine-tune the base encoder too, if that helps; takes minutes.")
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Forget what the question was taught; the index keeps its examples.")
    ] = False,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Teach the model a question by examples.

    Give at least three examples of each answer; searches and clusters under the question use them at once. They replace
    what was taught before. The index keeps the answers and the examples; the page Teach of the app shows them and adds
    to them. The answer "none of these" is for texts that give no other. Texts are not embedded again, except with
    --tune: it fine-tunes the base encoder on the examples too, for questions that the model does not follow.

    Example: retriever teach --instruction "What is the main reason for the rating?" examples.jsonl
    """
    from retriever.index.teaching.answering import GIVEN
    from retriever.index.teaching.examples import read_examples
    from retriever.workspace import Index

    refuse(forget and tune, "--forget fine-tunes nothing.", "Leave out --tune.")
    refuse(forget and examples is not None, "--forget takes no examples.", "Leave out the file, or --forget.")
    with Index(index, device=device) as opened, output.ProgressLine() as line:
        if forget:
            opened.teaching.forget(instruction)
            lessons, reader = None, opened.teaching.reader(instruction)
        else:
            refuse(
                examples is None and not opened.teaching.labels(instruction).examples,
                "There are no examples.",
                "Name a file with rows of id or text, and answer; or label documents on the page Teach.",
            )
            given = None if examples is None else read_examples(examples)
            lessons = opened.teaching.teach(instruction, given, tune=tune, progress=line.show)
    if json:
        taught = None if lessons is None else asdict(lessons)
        output.document({"instruction": instruction.strip(), "taught": taught})
    elif lessons is None:
        serving = "given answers serve" if reader == GIVEN else f"{reader or 'the encoder'} serves"
        said = f"{instruction.strip()}: forgotten; {serving} the question now. The index keeps the examples."
        output.result(printable(said))
    else:
        _render_lessons(instruction.strip(), lessons)


def _render_lessons(instruction: str, lessons: "Lessons") -> None:
    from retriever.index.teaching.examples import LEAST

    output.result(printable(f"{instruction}: learned from {sum(lessons.answers.values())} examples."))
    output.table(["answer", "examples"], [[answer, count] for answer, count in lessons.answers.items()])
    for answer, count in lessons.unlearned.items():
        examples = output.counted(count, "example") if count else "no example"
        output.say(printable(f"{answer}: {examples}, not learned; an answer needs {LEAST}."))
    output.result()
    output.table(
        ["held-out examples answered correctly", "share", "95 % interval"],
        [_row("before, by the nearest examples", lessons.before), _row("after", lessons.after)],
    )
    if lessons.tuned:
        output.say("The base encoder was fine-tuned for this question.")
    elif lessons.tuned is False:
        output.say("Fine-tuning the base encoder did not help with held-out examples, so it was not kept.")
    if lessons.after.value < lessons.before.value:
        output.say("These examples did not improve it. More examples may help; --forget takes the teaching back.")


def _row(name: str, held: "Held") -> list[object]:
    return [name, f"{held.value:.0%}", f"{held.low:.0%} to {held.high:.0%}"]


_SHOWN = 12  # answers
_COLOURS = {"followed": "green", "unclear": "yellow", "not followed": "red"}
_GROUPED = {
    "words_near": "texts with like answers are near each other (should be high)",
    "first_share": "texts differ along one direction (should be high)",
    "topic": "answers group the texts by their topics (should be low, unless topics are asked for)",
}


def diagnose(
    instruction: Annotated[str, typer.Option(help="Instruction to check.")],
    index: IndexOption = DEFAULT_INDEX,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="JSON Lines, CSV or another file of text pairs that are the same under it, or not: rows of a, b and "
            "same, which is true or false."
        ),
    ] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Check whether the model follows an instruction.

    The verdict and its measurements are shown; they are computed and stored at the first call.

    Example: retriever diagnose --instruction "What kind of product is it?" --index indexes/demo
    """
    from retriever.index.verdicts.pairs import read_pairs
    from retriever.workspace import Index

    known = [] if pairs is None else read_pairs(pairs)
    with Index(index, device=device) as opened, output.ProgressLine() as line:
        diagnosis = opened.teaching.diagnose(instruction, known, progress=line.show)
    if json:
        output.document(diagnosis.to_json())
    else:
        _render_diagnosis(diagnosis)


def _render_diagnosis(diagnosis: "Diagnosis") -> None:
    features = {key: value for key, value in diagnosis.features.items() if key in _GROUPED}
    if features:
        output.table(["measured", "correlation"], [[_GROUPED[key], f"{value:.3f}"] for key, value in features.items()])
        output.result()
    words = diagnosis.verdict.words(_SHOWN) or "the model answers in no words"
    output.result(printable(f"answers over {output.counted(diagnosis.verdict.texts, 'text')}: {words}"))
    if (pairs := diagnosis.pairs) is not None:
        output.result(
            f"{output.counted(pairs.pairs, 'pair')}: AUC {pairs.auc:.3f} (base view {pairs.base_auc:.3f}), "
            f"balanced accuracy {pairs.accuracy:.3f} at a cosine of {pairs.threshold:.3f}"
        )
    output.result(output.style(printable(diagnosis.sentence), _COLOURS[diagnosis.level]))
    say_ways(diagnosis.told)
