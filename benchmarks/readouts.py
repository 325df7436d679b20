"""What is read out of a model's answer, as rows of one table: states, the words of the answer, and what is typical.

    python benchmarks/readouts.py DATA UNMET --encoder default --limit 60 --output benchmarks/results/readouts.json

DATA is the folder of evaluation files, UNMET that of the suite `unmet`. A row is a way to make vectors of what one
pass gives, so that all rows are of the same reading:

- `state`: the vectors of the encoder's pooling, as they ship.
- `state, mean taken off` and `state, empty text taken off`: v(x, q) less the mean over the view's texts, or less v of
  an empty text under the same question (2503.17279), of length 1 again.
- `words`: the words that the encoder would show, read by the plain reader, their mean weighted by rank.
- `state and words`: both side by side, each of length 1, the means taken off.
- `plain reader`: the text alone; no question reaches it.

Columns are triplets not asked and asked and the reversal score over kept-out kinds of labelled files and over questions
asked of texts one by one, then triplets and two-way clusters of the three sources with two labels. In percent.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import write

from retriever.core.encoder import Encoder
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings
from retriever.encoders.catalog import load_encoder
from retriever.evaluation.awareness import MOST_TEXTS, Pool, pool_clustering, pool_triplets
from retriever.evaluation.grids import held_out_grids, kinds_grid
from retriever.evaluation.labelled import LABELLED, balanced_sample, load_texts
from retriever.evaluation.reversal import Alike, Grid, grid_reversals, grid_triplets
from retriever.evaluation.run.report import table
from retriever.evaluation.scores import PERCENT
from retriever.evaluation.unmet import by_file
from retriever.evaluation.unmet_kinds import unmet_kinds
from retriever.evaluation.wordings import find_wordings

WORDS = 8
"""Words of an answer that are read, the k-th weighing 1 / k."""
WORDINGS = 3
"""In how many wordings a question is asked."""


@dataclass(frozen=True, slots=True)
class View:
    """One question's reading of n texts.

    Attributes:
        states: (n, dim) vectors of the encoder.
        empty: (dim,) that of an empty text.
        words: (n, plain dim) vectors of the words of the answers; zero where there are none.
        plain: (n, plain dim) the plain reader's vectors of the texts.
    """

    states: Embeddings
    empty: Embeddings
    words: Embeddings
    plain: Embeddings


def without_mean(vectors: Embeddings) -> Embeddings:
    """Return rows (n, dim) less their mean, of length 1 again."""
    return normalise(vectors - vectors.mean(axis=0))


READOUTS: Mapping[str, Callable[[View], Embeddings]] = {
    "state": lambda view: view.states,
    "state, mean taken off": lambda view: without_mean(view.states),
    "state, empty text taken off": lambda view: normalise(view.states - view.empty),
    "words": lambda view: without_mean(view.words),
    "state and words": lambda view: normalise(
        np.concatenate([without_mean(view.states), without_mean(view.words)], axis=1)
    ),
    "plain reader": lambda view: view.plain,
}


class Reader:
    """Reads texts under questions for all readouts at once.

    Args:
        encoder: the question reader.
        plain: the plain reader.
    """

    def __init__(self, encoder: Encoder, plain: Encoder) -> None:
        self._encoder = encoder
        self._plain = plain
        self._known: dict[str, Embeddings] = {}

    def views(self, texts: Sequence[str], instructions: Sequence[str]) -> list[View]:
        """Return a view of the texts for every instruction."""
        plain = self._plain.encode(texts)
        read = self._encoder.encode_views([*texts, ""], instructions, words=WORDS)
        return [View(one.embeddings[:-1], one.embeddings[-1], self._bag(one.words[:-1]), plain) for one in read]

    def _bag(self, said: Sequence[Sequence[str]]) -> Embeddings:
        """Return (n, plain dim) the weighted means of the words' vectors."""
        new = sorted({word for words in said for word in words} - self._known.keys())
        if new:
            self._known |= dict(zip(new, self._plain.encode(new), strict=True))
        found = np.zeros((len(said), self._plain.dim), dtype=np.float32)
        for row, words in enumerate(said):
            for rank, word in enumerate(words, 1):
                found[row] += self._known[word] / rank
        return normalise(found)


def grid_scores(reader: Reader, grids: Sequence[Grid]) -> dict[str, list[float]]:
    """Return for every readout the triplets not asked and asked, and the reversal score, as means over kinds, pairs."""
    found: dict[str, tuple[list[float], list[float], list[float]]] = {name: ([], [], []) for name in READOUTS}
    for grid in grids:
        wordings = [wording for question in grid.questions for wording in question.wordings]
        views = reader.views(grid.texts, ["", *wordings])
        for name, readout in READOUTS.items():
            unasked, *asked = (np.round((one := readout(view).astype(np.float64)) @ one.T, 9) for view in views)
            left = iter(asked)
            alike = Alike(unasked, [[next(left) for _ in question.wordings] for question in grid.questions])
            for kind in grid_triplets(grid, alike):
                found[name][0].append(float(kind.unasked.mean()))
                found[name][1].append(float(kind.asked.mean()))
            found[name][2].extend(float(pair.by_wording.mean()) for pair in grid_reversals(grid, alike))
    return {name: [PERCENT * float(np.mean(values)) for values in columns] for name, columns in found.items()}


def pool_scores(reader: Reader, data: Path, limit: int) -> dict[str, list[float]]:
    """Return for every readout the triplets and two-way clusters, each a mean over the three sources."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in READOUTS}
    for source in LABELLED.values():
        texts = balanced_sample(load_texts(data, source), min(limit, MOST_TEXTS), seed=0)
        asked = [find_wordings(source.name, criterion).instruction for criterion in source.criteria]
        views = reader.views([one.text for one in texts], asked)
        for name, readout in READOUTS.items():
            pool = Pool(source, texts, [readout(view) for view in views], 0)
            triplets, clusters = list(pool_triplets(pool))[-1], list(pool_clustering(pool))[-1]
            found[name].append((triplets.value, clusters.value))
    return {name: np.mean(scores, axis=0).tolist() for name, scores in found.items()}


def lines(scores: Mapping[str, Sequence[float]]) -> Iterator[list[str]]:
    """Yield a row of the table for every readout."""
    for name, values in scores.items():
        yield [name, *(f"{value:.1f}" for value in values)]


HEADER = [
    "readout", "kept-out kinds: not asked", "asked", "reversal", "asked by reading: not asked", "asked", "reversal",
    "known: triplets", "clusters both ways",
]  # fmt: skip


def main() -> None:
    """Measure, write the JSON, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("unmet", type=Path)
    parser.add_argument("--encoder", default="default")
    parser.add_argument("--limit", type=int, default=60, help="texts of a labelled file; four times that of a pool")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    encoder = load_encoder(options.encoder)
    reader = Reader(encoder, load_encoder("minilm"))
    labelled = [
        kinds_grid(options.unmet, kinds, limit=options.limit, wordings=WORDINGS)
        for kinds in by_file(unmet_kinds()).values()
    ]
    parts = [
        grid_scores(reader, labelled),
        grid_scores(reader, held_out_grids(options.unmet, wordings=WORDINGS)[0]),
        pool_scores(reader, options.data, 4 * options.limit),
    ]
    scores = {name: [value for part in parts for value in part[name]] for name in READOUTS}
    write("readouts", options, {"fingerprint": encoder.fingerprint, "columns": HEADER[1:], "scores": scores})
    print("\n".join(table(HEADER, list(lines(scores)))))


if __name__ == "__main__":
    main()
