"""Suite `ice`: Instruction Contrastive Evaluation on rows of instruction, input, output and wrong outputs.

The rows are held-out FairytaleQA questions about sections of stories. A row's negative is the answer to another
question on the same story that is most similar to its own, as a generic encoder sees it, so that telling them apart
takes more than the topic.

Source: "General-Purpose Instruction-Aware Text Embeddings via Dual-Level Contrastive Learning", section 3.2.

Tokens for all 850 rows over 300 sections of 240 tokens: 100,000 under the questions, each section read once for all of
its questions, and 140,000 for the pool: a minute and a half at 2,600 tokens a second.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from retriever.core.errors import InputError
from retriever.core.protocols import Encoder
from retriever.evaluation.metrics import cosines, encode_each, own_output_first, triplet_successes
from retriever.evaluation.rows import LabelledRow, read_rows, sample, split_of
from retriever.evaluation.scores import PERCENT, Score, mean_score
from retriever.evaluation.suites import Bench, DataFile

MOST_ROWS = 3000  # most rows, as in the paper
MINER = "minilm"


@dataclass(frozen=True, slots=True)
class IceQuestion:
    """A question on a section of a story, and the row it came from."""

    row: LabelledRow
    story: str
    section: str
    question: str
    answer: str


def load_miner() -> Encoder:
    """Load the encoder that picks the negatives."""
    from retriever.encoders.catalog import load_encoder

    return load_encoder(MINER)


def fairytale(bench: Bench, *, miner: Callable[[], Encoder] = load_miner) -> Iterator[Score]:
    """Score the held-out stories of FairytaleQA.

    ``miner`` gives the encoder that picks each row's negative, under its default instruction.
    """
    questions = held_out_questions(bench.data)
    chosen = sample(questions, bench.at_most(MOST_ROWS), seed=bench.seed)
    encoder = miner()
    negatives = mine_negatives(chosen, questions, encoder)
    note = f"negatives by {encoder.spec.name or 'encoder'} {encoder.fingerprint[:12]}"
    yield from ice_scores(chosen, negatives, bench, note=note)


def held_out_questions(folder: Path) -> list[IceQuestion]:
    """Return the questions on held-out stories, in file order.

    Raises:
        InputError: the file cannot be used, a row lacks a key, or no story is held out.
    """
    rows = read_rows(folder, DataFile.STORIES)
    questions = [question for question in map(_question, rows) if split_of(question.story) == "test"]
    if not questions:
        raise InputError(
            f"{folder / DataFile.STORIES}: no story is held out.", hint="About one in ten is, by its name."
        )
    return questions


def mine_negatives(chosen: Sequence[IceQuestion], questions: Sequence[IceQuestion], miner: Encoder) -> list[str]:
    """Return for each of the chosen questions the wrong answer to another question most similar to its own.

    Wrong is the answer to another question on the same story that differs in more than case and punctuation, as the
    miner sees similarity. The first of equally similar ones is taken.

    Raises:
        InputError: a story has no wrong answer; the row is named.
    """
    stories = {question.story for question in chosen}
    pool = [question for question in questions if question.story in stories]
    answers = list(dict.fromkeys(question.answer for question in pool))
    vectors = dict(zip(answers, miner.encode(answers), strict=True))
    by_story: dict[str, list[IceQuestion]] = {}
    for question in pool:
        by_story.setdefault(question.story, []).append(question)
    negatives = []
    for question in chosen:
        right = {
            _bare(other.answer)
            for other in by_story[question.story]
            if _bare(other.question) == _bare(question.question)
        }
        wrong = [other.answer for other in by_story[question.story] if _bare(other.answer) not in right]
        if not wrong:
            raise question.row.problem(f"no other answer on the story {question.story!r} can serve as the negative")
        closeness = np.stack([vectors[answer] for answer in wrong]) @ vectors[question.answer]  # (wrong,)
        negatives.append(wrong[int(closeness.argmax())])
    return negatives


def ice_scores(
    questions: Sequence[IceQuestion], negatives: Sequence[str], bench: Bench, *, note: str = ""
) -> Iterator[Score]:
    """Yield IRS, IGS and ITDS, in percent: equations 1 to 3 of the ICE benchmark.

    IGS is the share of queries that are nearer to their output than to their negative, ITDS by how much on average.
    Queries are sections, the inputs, under their question, the instruction; all of these, the answers and the negatives
    are embedded under the default instruction.
    """
    sections, asked = [each.section for each in questions], [each.question for each in questions]
    queries = encode_each(bench.encoder, sections, asked, queries=True)
    pool = list(dict.fromkeys(text for each in questions for text in (each.question, each.section, each.answer)))
    texts = list(dict.fromkeys([*pool, *negatives]))
    places = {text: place for place, text in enumerate(texts)}
    vectors = bench.encoder.encode(texts)
    own = np.array([places[question.answer] for question in questions])
    first = own_output_first(queries, vectors[: len(pool)], own)
    outputs, wrong = vectors[own], vectors[[places[text] for text in negatives]]
    beaten = triplet_successes(queries, outputs, wrong)
    apart = cosines(queries, outputs) - cosines(queries, wrong)
    task, seed = "fairytale", bench.seed
    yield mean_score(task, "IRS", first, seed=seed, scale=PERCENT, headline=True, note=f"pool of {len(pool)} texts")
    yield mean_score(task, "IGS", beaten, seed=seed, scale=PERCENT, headline=True, note=note)
    yield mean_score(task, "ITDS", apart, seed=seed, scale=PERCENT, note=note)


def _question(row: LabelledRow) -> IceQuestion:
    return IceQuestion(row, *(row.get(key, str) for key in ("meta.story", "text", "question", "answer")))


def _bare(text: str) -> str:
    """Return the words of a text in lower case."""
    return " ".join(re.findall(r"\w+", text.lower()))
