"""Rows to learn from out of an index: what people answered, texts to be answered, hard negatives."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

from retriever.core.errors import InputError, UsageError
from retriever.core.paths import write_output
from retriever.core.text import normal_instruction
from retriever.index.opened import opened
from retriever.index.teaching.labels import NONE_OF_THESE
from retriever.store.answers import PERSON
from retriever.training.negatives import Mined, MiningOptions, mine_documents
from retriever.training.pairs import HardNegatives
from retriever.training.rows import TrainingRow, normalise_text
from retriever.workspace import Index

_OPTION = "--as-rows"
_SEED = 0


def answered_rows(index: Index, instruction: str) -> list[TrainingRow]:
    """Return a row of text, question and answer for every text of an index that a person answered a question about.

    Labels, corrections and examples of categories are such answers. Texts with `NONE_OF_THESE` have no row.
    """
    store, question = opened(index).store, normal_instruction(instruction)
    answers = store.answers.by(PERSON, question)
    documents = store.documents.expand([content for content, answer in answers.items() if answer != NONE_OF_THESE])
    group = normalise_text(question)
    return [
        TrainingRow(document.text, question, answers[content], group=group)
        for content, (document, *_) in documents.items()
    ]


def index_texts(index: Index, count: int) -> list[str]:
    """Return the texts of some documents of an index, to be answered by a person; the same ones every time."""
    documents = opened(index).store.documents
    ids = list(documents.ids())
    chosen = random.Random(_SEED).sample(ids, min(count, len(ids)))
    return [document.text for document in documents.get(sorted(chosen)).values()]


def write_answers(path: Path, index: Index, instruction: str) -> int:
    """Write what people answered to a question as JSON Lines, as `retriever finetune` reads them; count the rows.

    Raises:
        InputError: there are none.
        OutputError: the file cannot be written.
    """
    rows = answered_rows(index, instruction)
    if not rows:
        raise InputError(
            "There is nothing to learn from.",
            hint="Correct some first: `retriever cluster --saved NAME --move ID=GROUP`.",
        )
    lines = (json.dumps(row.to_json(), ensure_ascii=False) for row in rows)
    write_output(path, "".join(f"{line}\n" for line in lines), _OPTION)
    return len(rows)


def mine_index(
    path: Path,
    rows: Sequence[TrainingRow],
    options: MiningOptions,
    *,
    held_out: Sequence[TrainingRow] = (),
    passages: bool = False,
    device: str = "auto",
) -> Mined:
    """Return documents of an index that its encoders put near the rows' texts though they do not belong there.

    Rows with positives are served by the base view, others by the complete view of their own question; with
    ``passages`` only the first are, for a method that compares no texts. The texts of held-out rows are not learned
    from in any part.

    Raises:
        IndexNotFoundError: there is no index.
        UsageError: no view serves any row, and the view to fill is named; or the index is of sentences.
    """
    forbidden = {row.text_key for row in held_out}
    negatives: list[HardNegatives] = [()] * len(rows)
    skipped = 0
    with Index(path, device=device) as index:
        if opened(index).store.parts:
            raise UsageError(
                f"{path} is an index of sentences, which are no negatives for whole texts.",
                hint="Name an index of whole documents, or leave --index out.",
            )
        served = [row for row in rows if row.positives or not passages]
        instructions = list(dict.fromkeys("" if row.positives else row.instruction for row in served))
        for instruction in instructions:
            source = opened(index).sources.read(instruction)
            view = opened(index).sources.view(source)
            searcher = None if view is None else opened(index).views.loaded(view)
            if searcher is None or not searcher.complete:
                continue
            documents = opened(index).store.documents
            mined = mine_documents(rows, source.encoder, searcher, instruction, documents, options)
            skipped += mined.skipped
            for place, hard in enumerate(mined.rows):
                if hard:
                    negatives[place] = tuple(text for text in hard if normalise_text(text) not in forbidden)
    mined = Mined(negatives, skipped)
    if not mined.served:
        raise UsageError(
            f"{path} has no negatives for these rows: no view holds all documents under one of their questions.",
            hint=f"Fill one with `retriever index CORPUS --index {path} --instruction QUESTION`, or leave --index out.",
        )
    return mined
