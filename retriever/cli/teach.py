"""`retriever teach`: what a question means, by a few examples."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, IndexOption, JsonOption
from retriever.core.errors import UsageError
from retriever.core.schema import SCHEMA_VERSION
from retriever.core.text import printable

if TYPE_CHECKING:
    from retriever.core.results import Held, Lessons


def teach(
    instruction: Annotated[str, typer.Option(help="The question that is taught.")],
    examples: Annotated[
        Path | None,
        typer.Argument(help="JSONL file, a row an example: the document's id or its text, and the answer."),
    ] = None,
    index: IndexOption = DEFAULT_INDEX,
    tune: Annotated[
        bool, typer.Option("--tune", help="Fine-tune the plain reader besides, where that helps: minutes.")
    ] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Forget what the question was taught.")] = False,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Teach a question by three examples or more an answer; searches and clusters under it use them at once.

    No text is read again, but for examples that the question's view lacks. What was taught before is replaced. With
    --tune the plain reader is fine-tuned on the examples too, and reads every text again: for questions that are not
    followed.

    Example: retriever teach --instruction "What is the main reason for the rating?" examples.jsonl
    """
    from retriever.index.teaching.examples import read_examples
    from retriever.workspace import Index

    if forget and tune:
        raise UsageError("--forget fine-tunes nothing.", hint="Leave --tune away.")
    if (examples is None) is not forget:
        raise UsageError(
            "--forget takes no examples." if forget else "There are no examples.",
            hint="Name a JSONL file with rows of id or text, and answer; or --forget.",
        )
    line = output.ProgressLine()
    with Index(index, device=device) as opened:
        if examples is None:
            opened.forget(instruction)
            lessons = None
        else:
            lessons = opened.teach(instruction, read_examples(examples), tune=tune, progress=line.show)
        line.close()
    if json:
        taught = None if lessons is None else asdict(lessons)
        output.document({"schema_version": SCHEMA_VERSION, "instruction": instruction.strip(), "taught": taught})
    elif lessons is None:
        output.result(printable(f"{instruction.strip()}: forgotten; the untaught view serves again."))
    else:
        _render(instruction.strip(), lessons)


def _render(instruction: str, lessons: "Lessons") -> None:
    output.result(printable(f"{instruction}: taught by {sum(lessons.answers.values())} examples."))
    output.table(["answer", "examples"], [[answer, count] for answer, count in lessons.answers.items()])
    output.result()
    output.table(
        ["examples left out and answered rightly", "share", "95 % interval"],
        [_row("untaught, by the nearest examples", lessons.before), _row("taught", lessons.after)],
    )
    if lessons.tuned:
        output.say("The plain reader was fine-tuned for this question.")
    elif lessons.tuned is False:
        output.say("Fine-tuning the plain reader did not help with examples left out, and was not kept.")
    if lessons.after.value < lessons.before.value:
        output.say("These examples made it no better. More of them may help; --forget goes back to the untaught view.")


def _row(name: str, held: "Held") -> list[object]:
    return [name, f"{held.value:.0%}", f"{held.low:.0%} to {held.high:.0%}"]
