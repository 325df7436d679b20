r"""Whether a linear preview of an instruction's view comes nearer to it than the lazy path, for as many texts read.

    python benchmarks/preview.py DATA --output benchmarks/results/preview.json

A corpus has its base view, and an instruction comes late. What is found by vectors is compared with the complete view:

- ``base``: the base view, searched by the query under the instruction. Nothing is read.
- ``lazy``: what a lazy search answers that reads so many candidates; every query reads its own.
- ``preview``: a ridge regression from base vectors to vectors under the instruction, fitted to so many texts drawn at
  random and applied to all others. It is paid for once an instruction.
- ``both``: half of the texts fit the preview, the other half are its best candidates, read.

``agreement`` is the share of the complete view's first ten, ``ndcg`` their nDCG@10 with grades 10 to 1, ``labels`` the
nDCG@10 of texts with the query's own label, for the instructions that ask for one. All orders are by the cosine alone,
as a search's were when the preview was decided on; it takes off what is typical now.
"""

import argparse
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import write
from numpy.typing import NDArray

from retriever import load_encoder
from retriever.core.protocols import Encoder
from retriever.core.requests import SearchOptions
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings
from retriever.evaluation.labelled import LABELLED, LabelledText, balanced_sample, load_texts
from retriever.evaluation.retrieval_metrics import ranking_measures
from retriever.evaluation.rows import sample
from retriever.evaluation.run.embedding_cache import CachedEncoder, EmbeddingCache
from retriever.evaluation.scores import difference, mean_score
from retriever.index.encoding import count_tokens
from retriever.index.search.rankings import Ranking, fuse

K = 10
STRENGTHS = np.logspace(-3, 2, 11)  # of the ridge penalty; the one of least leave-one-out error is taken
MEASURES = ("agreement", "ndcg", "labels")
ASKED: Mapping[str, Mapping[str, int | None]] = {  # and which of the source's two labels answers it
    "reviews": {
        "Which kind of product did the customer buy?": 0,
        "Was the customer pleased or let down?": 1,
        "What went wrong with the product?": None,
        "Who uses the product?": None,
        "Which part or feature of the product is talked about most?": None,
        "What does the review say about the price?": None,
    },
    "restaurants": {
        "Is it about the food, the service or the place?": 0,
        "Did the guest like it?": 1,
        "Which dish or drink is mentioned?": None,
        "How did the staff behave?": None,
        "Would the guest come back?": None,
        "What is said about the price?": None,
    },
}


@dataclass(frozen=True, slots=True)
class Late:
    """An instruction that comes late.

    Attributes:
        base: (n, dim) texts under the default instruction.
        exact: (n, dim) the same under the given one.
        plain: (q, dim) queries under the default instruction.
        asked: (q, dim) the same under the given one.
        same: (q, n) whether a text has the query's label; None where no label answers the instruction.
    """

    base: Embeddings
    exact: Embeddings
    plain: Embeddings
    asked: Embeddings
    same: NDArray[np.bool_] | None = None


def ranking(scores: NDArray[np.float32]) -> Ranking:
    """Return rows by falling score, equal ones in their order."""
    return Ranking(np.argsort(-scores, kind="stable").tolist(), [])


def read_first(late: Late, query: int, candidates: Sequence[int], budget: int) -> list[int]:
    """Return candidates: the first of them by their exact cosines, behind them the others as they stood."""
    read = np.sort(np.asarray(candidates[:budget], dtype=np.int64))
    order = np.argsort(-(late.exact[read] @ late.asked[query]), kind="stable")
    return [*read[order].tolist(), *candidates[budget:]]


def base_hits(late: Late, budget: int, seed: int) -> list[list[int]]:
    """Return every query's rows in the base view, best first."""
    return [ranking(late.base @ asked).ids for asked in late.asked]


def lazy_hits(late: Late, budget: int, seed: int) -> list[list[int]]:
    """Return what a lazy search by vectors alone finds for every query that reads its own candidates."""
    found = []
    for row, (plain, asked) in enumerate(zip(late.plain, late.asked, strict=True)):
        both = [Ranking(ranking(late.base @ one).ids[: SearchOptions().candidates], []) for one in (plain, asked)]
        found.append(read_first(late, row, fuse(*both).ids, budget))
    return found


def preview(base: Embeddings, exact: Embeddings, rows: NDArray[np.int64]) -> Embeddings:
    """Return a preview (n, dim) of the whole view, given the rows of it that are known.

    Known rows are transformed too: beside them, exact vectors would rank too high or too low.
    """
    from sklearn.linear_model import RidgeCV

    return normalise(RidgeCV(STRENGTHS).fit(base[rows], exact[rows]).predict(base))


def preview_hits(late: Late, budget: int, seed: int) -> list[list[int]]:
    """Return every query's rows in a preview that was fitted to as many texts as the budget holds."""
    moved = preview(late.base, late.exact, _drawn(late, budget, seed))
    return [ranking(moved @ asked).ids for asked in late.asked]


def both_hits(late: Late, budget: int, seed: int) -> list[list[int]]:
    """Return what is found where half the budget fits a preview and the other half reads its best candidates."""
    found = preview_hits(late, budget // 2, seed)
    return [read_first(late, row, ids, budget - budget // 2) for row, ids in enumerate(found)]


Method = Callable[[Late, int, int], list[list[int]]]
METHODS: Mapping[str, Method] = {"base": base_hits, "lazy": lazy_hits, "preview": preview_hits, "both": both_hits}


def _drawn(late: Late, count: int, seed: int) -> NDArray[np.int64]:
    return np.sort(np.random.default_rng(seed).permutation(len(late.base))[:count])


def measured(late: Late, hits: Sequence[Sequence[int]]) -> dict[str, NDArray[np.float64]]:
    """Return every measure of every query, (q,) each."""
    exact = [ranking(late.exact @ asked).ids[:K] for asked in late.asked]
    grades = [{str(row): K - place for place, row in enumerate(ids)} for ids in exact]
    found = {
        "agreement": np.array([len({*ids[:K]} & {*wanted}) / K for ids, wanted in zip(hits, exact, strict=True)]),
        "ndcg": _ndcg(hits, grades),
    }
    if late.same is not None:
        found["labels"] = _ndcg(hits, [dict.fromkeys(map(str, np.flatnonzero(one)), 1) for one in late.same])
    return found


def _ndcg(hits: Sequence[Sequence[int]], grades: Sequence[Mapping[str, int]]) -> NDArray[np.float64]:
    run = {str(q): [(str(row), 1 / place) for place, row in enumerate(ids[:K], 1)] for q, ids in enumerate(hits)}
    wanted = {str(q): dict(one) for q, one in enumerate(grades)}
    return np.asarray(ranking_measures(run, wanted, ["nDCG@10"])["nDCG@10"])


def compare(lates: Sequence[Late], budget: int, seeds: Sequence[int]) -> dict[str, Any]:
    """Return every method's means over instructions, queries and draws, and what the others have above lazy."""
    values: dict[str, dict[str, NDArray[np.float64]]] = {}
    for name, method in METHODS.items():
        runs = [measured(late, method(late, budget, seed)) for late in lates for seed in seeds]
        values[name] = {
            measure: np.mean([run[measure] for run in runs if measure in run], axis=0) for measure in MEASURES
        }
    means = {
        name: {measure: round(float(per_query.mean()), 4) for measure, per_query in one.items()}
        for name, one in values.items()
    }
    above = {
        name: {measure: _above(values[name][measure], values["lazy"][measure]) for measure in MEASURES}
        for name in ("base", "preview", "both")
    }
    return {"texts_read": budget, **means, "above_lazy": above}


def _above(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> list[float]:
    """Return the mean difference over queries with the ends of its paired 95 % interval."""
    found = difference(*(mean_score("", "", one, seed=0) for one in (ours, theirs)))
    return [round(one, 4) for one in (found.value, found.low, found.high)]


def lates_of(
    encoder: Encoder, texts: Sequence[LabelledText], queries: int, asked: Mapping[str, int | None]
) -> list[Late]:
    """Return the instructions over a corpus, of which some texts are the queries and left out."""
    vectors = encoder.encode_many([one.text for one in texts], ["", *asked])
    chosen = np.array(sorted(sample(range(len(texts)), queries, seed=0)))
    rest = np.setdiff1d(np.arange(len(texts)), chosen)
    lates = []
    for exact, place in zip(vectors[1:], asked.values(), strict=True):
        same = None
        if place is not None:
            labels = np.array([one.labels[place] for one in texts])
            same = labels[chosen][:, None] == labels[rest]
        lates.append(Late(vectors[0][rest], exact[rest], vectors[0][chosen], exact[chosen], same))
    return lates


def main() -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", default="pretrained:default")
    parser.add_argument("--limit", type=int, default=600, help="documents of each corpus")
    parser.add_argument("--queries", type=int, default=30, help="of each corpus, asked under every instruction")
    parser.add_argument("--texts-read", type=int, nargs="+", default=[20, 40, 80, 160])
    parser.add_argument("--seeds", type=int, default=3, help="draws of the texts that a preview is fitted to")
    parser.add_argument("--cache", type=Path, help="folder that keeps vectors between runs")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    encoder: Encoder = load_encoder(options.encoder)
    if options.cache:
        encoder = CachedEncoder(encoder, EmbeddingCache(options.cache))
    corpora = []
    for name, asked in ASKED.items():
        texts = balanced_sample(load_texts(options.data, LABELLED[name]), options.limit + options.queries, seed=0)
        lates = lates_of(encoder, texts, options.queries, asked)
        lengths = count_tokens(encoder, [one.text for one in texts])
        corpora.append(
            {
                "name": name,
                "documents": len(texts) - options.queries,
                "queries": options.queries,
                "instructions": list(asked),
                "tokens_per_text": round(statistics.mean(lengths), 1),
                "found": [compare(lates, budget, range(options.seeds)) for budget in options.texts_read],
            }
        )
    del options.cache  # says nothing about the figures
    write("preview", options, {"encoder": {"fingerprint": encoder.fingerprint}, "corpora": corpora})


if __name__ == "__main__":
    main()
