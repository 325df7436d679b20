"""Rows from questions that were asked of real texts one by one, and answered by reading.

    python recipes/asked.py OUT DATA [DATA ...]

`asked.jsonl` holds grids: 40 texts of one source under the same twelve questions, each in five wordings. The texts stay
with their owners: a grid knows them by hash, and they are found again in the JSON Lines files of the DATA folders. A
DATA folder may have an `asked.jsonl` of its own, whose grids hold their texts; those marked for training are read too.
`analyst_questions.json` lists what analysts of reviews, tickets and surveys ask, each in ten wordings to learn from and
two held out; a grid's question of the same kind is asked in these words too.
"""

import argparse
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kept_out import beginning, text_hash

from retriever.core.errors import InputError
from retriever.evaluation.rows import read_rows

FOLDER = Path(__file__).parent
FILE = "asked.jsonl"
WORDINGS = 1
"""In how many wordings a question is asked of each text."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a grid.

    Attributes:
        kind: its name; questions of one kind have the same answers in every grid.
        family: what it asks about.
        wordings: ways to ask it.
    """

    kind: str
    family: str
    wordings: Sequence[str]


@dataclass(frozen=True, slots=True)
class Grid:
    """Texts of one source under the same questions.

    Attributes:
        name: tells it from the others.
        source: the file the texts are from, without its ending.
        questions: in the order of the answers.
        answers: by the hash of a text.
    """

    name: str
    source: str
    questions: Sequence[Question]
    answers: Mapping[str, Sequence[str]]


def grids() -> list[Grid]:
    """Read all grids."""
    found = []
    for line in (FOLDER / FILE).read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        questions = [Question(**question) for question in one["questions"]]
        found.append(Grid(one["grid"], one["source"], questions, {row["text"]: row["answers"] for row in one["rows"]}))
    return found


def analyst_wordings() -> dict[str, list[str]]:
    """Read the wordings to learn from of every kind of question that analysts ask."""
    listed = json.loads((FOLDER / "analyst_questions.json").read_text(encoding="utf-8"))
    return {one["kind"]: one["wordings"] for one in listed}


def texts_of(source: str, folders: Sequence[Path]) -> dict[str, str]:
    """Return the texts of a source by hash, whole and cut as the grids have them.

    Raises:
        InputError: no folder has the file.
    """
    file = next((folder / f"{source}.jsonl" for folder in folders if (folder / f"{source}.jsonl").is_file()), None)
    if file is None:
        raise InputError(f"There is no {source}.jsonl in {', '.join(map(str, folders))}.", hint="Name its folder.")
    found = {}
    with file.open(encoding="utf-8") as lines:
        for text in (json.loads(line)["text"] for line in lines):
            for one in (text, beginning(text)):
                found[text_hash(one)] = one
    return found


def grids_with_texts(folder: Path) -> Iterator[tuple[Grid, dict[str, str]]]:
    """Yield the grids of a folder that are for training, each with its texts by hash; none where it has no grids."""
    if not (folder / FILE).is_file():
        return
    for row in read_rows(folder, FILE):
        one = row.values
        if one["split"] == "train":
            texts = {text_hash(each["text"]): each["text"] for each in one["rows"]}
            answers = {text_hash(each["text"]): each["answers"] for each in one["rows"]}
            questions = [Question(**question) for question in one["questions"]]
            yield Grid(f"{folder.name}-{one['grid']}", one["source"], questions, answers), texts


def rows(folders: Sequence[Path], seed: int = 0) -> Iterator[dict[str, str]]:
    """Yield a row of text, question and answer for every text of every grid under some wordings of every question.

    A row's group is the kind of its question, so that training knows the wordings of one question, and finds the grids.

    Raises:
        InputError: a file is missing, or no longer has the texts of a grid.
    """
    chosen, analysts = random.Random(seed), analyst_wordings()
    for grid, texts in [*_found(folders), *(one for folder in folders for one in grids_with_texts(folder))]:
        for digest, answers in grid.answers.items():
            for question, answer in zip(grid.questions, answers, strict=True):
                wordings = [*question.wordings, *analysts.get(question.kind, ())]
                for wording in chosen.sample(wordings, WORDINGS):
                    yield {"text": texts[digest], "question": wording, "answer": answer, "group": question.kind}


def _found(folders: Sequence[Path]) -> Iterator[tuple[Grid, dict[str, str]]]:
    """Yield our grids with the texts of their sources."""
    for grid in grids():
        texts = texts_of(grid.source, folders)
        if lacking := [one for one in grid.answers if one not in texts]:
            raise InputError(
                f"{grid.source}.jsonl lacks {len(lacking)} of the texts of grid {grid.name}.",
                hint="It is another version of the file than the one the questions were asked of.",
            )
        yield grid, texts


def main() -> None:
    """Parse the options and write ``asked.jsonl`` into the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("data", type=Path, nargs="+")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "asked.jsonl").open("w", encoding="utf-8") as file:
        for row in rows(options.data):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
