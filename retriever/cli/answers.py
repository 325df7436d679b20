"""`retriever answers`: list or import the answers in words that texts give to a question."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, IndexOption, JsonOption
from retriever.core.errors import UsageError
from retriever.core.text import printable

_AUTHORS = {"person": "people", "program": "programs"}


def answers(
    instruction: Annotated[str, typer.Option(help="Question that the texts answer.")],
    file: Annotated[
        Path | None,
        typer.Argument(
            help="JSON Lines, CSV or another file to import, rows of id and answer; an empty answer deletes one."
        ),
    ] = None,
    index: IndexOption = DEFAULT_INDEX,
    again: Annotated[
        bool, typer.Option("--again", help="Let texts that a language model gave no answer to be asked about again.")
    ] = False,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write id and answer of every document.")] = None,
    as_rows: Annotated[
        Path | None, typer.Option("--as-rows", help="Write answers by people as rows for finetune.", hidden=True)
    ] = None,
    json: JsonOption = False,
) -> None:
    """List or import the answers that texts give to a question.

    Answers come from a language model (--reader of search), an agent (`retriever mcp --write`) or a file. An imported
    answer is a phrase of at most twelve words, or "not said" where a text does not say, and replaces the model's.
    Searches and clusters under the question use the answers.

    Example: retriever answers --instruction "Why did they leave?" answers.jsonl
    """
    from retriever.index.teaching.answer_files import read_answers
    from retriever.index.teaching.answering import GIVEN
    from retriever.workspace import Index

    if file is not None and csv_file is not None:
        raise UsageError("--csv lists answers, and a file imports some.", hint="Import first, then list.")
    with Index(index) as opened:
        if again:
            texts = output.counted(opened.teaching.ask_again(instruction), "refused text")
            output.say(f"{texts} can be asked about again, by searches, clusters and `retriever index --read`.")
        if file is not None:
            opened.teaching.give_answers(instruction, read_answers(file))
        if as_rows is not None:
            from retriever.training.from_index import write_answers

            count = write_answers(as_rows, opened, instruction)
            output.say(f"Wrote {output.counted(count, 'row')} for `retriever finetune` to {as_rows}.")
        status = opened.teaching.answers_status(instruction)
        answered, reader = opened.teaching.answered_by(instruction), opened.teaching.reader(instruction)
        listed = opened.teaching.answers(instruction) if file is None else {}
    if csv_file is not None:
        output.write_table(csv_file, ["id", "answer"], list(listed.items()))
    if json:
        shown = {"answers": listed} if file is None else {}
        state = {"status": asdict(status), "answered_by": answered}
        output.document({"instruction": instruction.strip(), **state, **shown})
        return
    for id, answer in listed.items():
        output.result(printable(f"{id}  {answer}"))
    people = ", ".join(f"{count} by {_AUTHORS.get(author, author)}" for author, count in sorted(answered.items()))
    model = "" if reader == GIVEN else reader
    known = model in answered if model else answered
    served = "" if known else f"; {model or 'no language model'} serves the question"
    said = f"{status.answers} of {status.texts} texts have an answer"
    output.say(printable(f"{said}{people and f': {people}'}{served}."))
