"""Hard negatives for a fine-tuning out of a user's own index."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from retriever.core.errors import UsageError
from retriever.index.encoding import view_key
from retriever.training.negatives import MiningOptions
from retriever.training.pairs import HardNegatives
from retriever.training.row_negatives import IndexedDocuments, mine_documents
from retriever.training.rows import TrainingRow, normalise_text
from retriever.workspace import Index


@dataclass(frozen=True, slots=True)
class MinedNegatives:
    """The hard negatives that an index gave.

    Attributes:
        rows: the negatives of every row, empty for a row that no view serves.
        served: rows that have some.
        skipped: documents left out because they may be right.
    """

    rows: list[HardNegatives]
    served: int
    skipped: int


def mine_index(
    path: Path,
    rows: Sequence[TrainingRow],
    options: MiningOptions,
    *,
    held_out: Sequence[TrainingRow] = (),
    passages: bool = False,
    device: str = "auto",
) -> MinedNegatives:
    """Return documents of an index that its encoder puts near the rows' texts though they do not belong there.

    Rows with positives are served by the base view, others by the complete view of their own question; with
    ``passages`` only the first are, for a method that compares no texts. The texts of held-out rows are not learned
    from in any part.

    Raises:
        IndexNotFoundError: there is no index.
        UsageError: no view serves any row, and the view to fill is named; or the index is of sentences.
    """
    forbidden = {row.text_key for row in held_out}
    found = [HardNegatives()] * len(rows)
    skipped = 0
    with Index(path, device=device) as index:
        if index.store.units.divided:
            raise UsageError(
                f"{path} is an index of {index.store.units.kind}, which are no negatives for whole texts.",
                hint="Name an index of whole documents, or leave --index out.",
            )
        served = [row for row in rows if row.positives or not passages]
        asked = list(dict.fromkeys("" if row.positives else row.instruction for row in served))
        for instruction in asked:
            documents = _documents(index, instruction)
            if documents is None:
                continue
            mined = mine_documents(rows, index.encoder, documents, options)
            skipped += mined.skipped
            for place, one in enumerate(mined.rows):
                if one.texts or one.answers:
                    found[place] = _without(one, forbidden)
    count = sum(bool(one.texts or one.answers) for one in found)
    if not count:
        raise UsageError(
            f"{path} has no negatives for these rows: no view holds all documents under one of their questions.",
            hint=f"Fill one with `retriever index CORPUS --index {path} --instruction QUESTION`, or leave --index out.",
        )
    return MinedNegatives(found, count, skipped)


def _documents(index: Index, instruction: str) -> IndexedDocuments | None:
    """Return the index's complete view under an instruction, or None."""
    view = index.store.views.find(view_key(index.encoder, instruction))
    if view is None:
        return None
    searcher = index.searcher(view)
    if not searcher.complete:
        return None
    documents = index.store.documents
    return IndexedDocuments(searcher, instruction, documents.texts, documents.known)


def _without(found: HardNegatives, forbidden: set[str]) -> HardNegatives:
    def kept(texts: Sequence[str]) -> tuple[str, ...]:
        return tuple(one for one in texts if normalise_text(one) not in forbidden)

    return HardNegatives(texts=kept(found.texts), answers=kept(found.answers))
