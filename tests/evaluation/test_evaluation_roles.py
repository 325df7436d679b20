"""Evaluations read queries as queries, and texts that are compared with each other as documents."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from label_fakes import bench, restaurant_rows, write_rows
from sentence_transformers import SentenceTransformer
from tiny_families import PROMPTS
from tiny_models import edit_json

from retriever import load_encoder
from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.similarity import normalise
from retriever.core.types import Document, Encoded
from retriever.evaluation import awareness, generic, ice, robustness, unmet
from retriever.evaluation.ice import IceQuestion
from retriever.evaluation.run.bench import IndexSearchPath, RememberingEncoder
from retriever.evaluation.run.mteb_encoder import MtebEncoder
from retriever.evaluation.suites import DataFile

QUERY, DOCUMENT = PROMPTS["embedding-gemma"]
SECTIONS = [
    "the toy broke because the battery is dull",
    "kettle boils water fast",
    "a sharp knife and a heavy lid",
    "love the red lamp, hate the blue cable",
    "my child broke the handle of the toy",
    "terrible mood and a slow dog",
]
QUESTIONS = ["what broke", "how fast is the kettle", "is it sharp", "which lamp", "who broke it", "why so slow"]


class OneRole(Encoder):
    """The tiny model as sentence-transformers reads it, with one prompt before every text."""

    def __init__(self, folder, prompt):
        self.stock, self.prompt = SentenceTransformer(str(folder), device="cpu"), prompt
        self._spec = EncoderSpec(prompt.ljust(64, "0"), self.stock.get_embedding_dimension())

    @property
    def spec(self):
        return self._spec

    def read(self, texts, instruction=""):
        prompt = f"{self.prompt}{instruction} " if instruction else self.prompt
        return normalise(self.stock.encode(list(texts), prompt=prompt))

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        return [Encoded(self.read(texts, instruction), [[] for _ in texts]) for instruction in instructions]


@pytest.fixture(scope="module")
def gemma(family, tmp_path_factory):
    """The folder of a tiny model with room for texts behind long instructions."""
    folder = shutil.copytree(family("embedding-gemma"), tmp_path_factory.mktemp("long") / "model")
    edit_json(folder / "sentence_bert_config.json", max_seq_length=512)
    edit_json(folder / "tokenizer_config.json", model_max_length=512)
    return folder


@pytest.fixture(scope="module")
def measured(gemma):
    return RememberingEncoder(load_encoder(f"st:{gemma}", device="cpu"))


@pytest.fixture(scope="module")
def queries(gemma):
    return OneRole(gemma, QUERY)


@pytest.fixture(scope="module")
def documents(gemma):
    return OneRole(gemma, DOCUMENT)


def pairs():
    rows = [(left, right) for left in range(6) for right in range(left)]
    return [{"a": SECTIONS[a], "b": SECTIONS[b], "score": (a * b) % 5, "split": "test"} for a, b in rows]


def triplet_rows():
    asked = {"cause": "What broke?", "thing": "Which thing is it?"}
    turns = [np.roll(SECTIONS, turn).tolist() for turn in range(6)]
    return [
        {"id": str(turn), "anchor": texts[0], "same_cause": texts[1], "same_thing": texts[3], "instructions": asked}
        for turn, texts in enumerate(turns)
    ]


def grids():
    questions = [
        {"kind": kind, "wordings": [f"Which {kind} is it?", f"Name the {kind}."]} for kind in ("thing", "colour")
    ]
    rows = [{"text": text, "answers": [str(place % 2), str(place % 3)]} for place, text in enumerate(SECTIONS)]
    return [{"questions": questions, "rows": rows, "split": "dev"}]


@pytest.mark.parametrize(
    ("task", "file", "rows"),
    [
        (awareness.triplets, DataFile.TRIPLETS, triplet_rows()),
        (awareness.restaurants, DataFile.RESTAURANTS, restaurant_rows(per_cell=2)),
        (robustness.restaurants, DataFile.RESTAURANTS, restaurant_rows(per_cell=2)),
        (unmet.asked, DataFile.ASKED, grids()),
        (generic.sts, DataFile.SENTENCE_PAIRS, pairs()),
    ],
)
def test_texts_compared_with_each_other_are_documents(tmp_path, measured, queries, documents, task, file, rows):
    write_rows(tmp_path, file, rows)
    found, as_documents, as_queries = (
        [score.value for score in task(bench(tmp_path, encoder))] for encoder in (measured, documents, queries)
    )
    assert found == pytest.approx(as_documents, abs=1e-3)
    assert found != pytest.approx(as_queries, abs=1e-3)


def mean_precision(cosines):
    """MAP of queries (n,) among texts (n,), of which each has its own."""
    return 100 * float(np.mean([1 / (1 + (row > row[own]).sum()) for own, row in enumerate(cosines)]))


def test_a_question_is_ranked_as_a_query_against_sections_as_documents(tmp_path, measured, queries, documents):
    rows = zip(SECTIONS, QUESTIONS, strict=True)
    stories = [{"text": text, "question": question, "split": "val", "meta": {"story": "a"}} for text, question in rows]
    write_rows(tmp_path, DataFile.STORIES, stories)
    (score,) = generic.rerank(bench(tmp_path, measured))
    sections = documents.read(SECTIONS)
    assert score.value == pytest.approx(mean_precision(queries.read(QUESTIONS) @ sections.T))
    assert score.value != pytest.approx(mean_precision(documents.read(QUESTIONS) @ sections.T))


def test_a_section_under_its_question_is_a_query_and_answers_are_documents(tmp_path, measured, queries, documents):
    answers = np.roll(SECTIONS, 1).tolist()
    wrong = np.roll(SECTIONS, 2).tolist()
    rows = [IceQuestion(None, "tale", *row) for row in zip(SECTIONS, QUESTIONS, answers, strict=True)]
    scores = {score.metric: score.value for score in ice.ice_scores(rows, wrong, bench(tmp_path, measured))}
    right, others = documents.read(answers), documents.read(wrong)

    def distance(encoder):
        read = [encoder.read([text], question) for text, question in zip(SECTIONS, QUESTIONS, strict=True)]
        return 100 * float((np.concatenate(read) * (right - others)).sum(axis=1).mean())

    assert scores["ITDS"] == pytest.approx(distance(queries), abs=1e-3)
    assert scores["ITDS"] != pytest.approx(distance(documents), abs=1e-3)


@pytest.mark.parametrize(("kind", "role"), [("query", "queries"), ("document", "documents"), (None, "documents")])
def test_mteb_gets_queries_as_queries_and_all_else_as_documents(measured, request, kind, role):
    prompt_type = kind and SimpleNamespace(value=kind)
    vectors = MtebEncoder(measured).encode(
        [{"text": SECTIONS}], task_metadata=SimpleNamespace(prompt=None), prompt_type=prompt_type
    )
    np.testing.assert_allclose(vectors, request.getfixturevalue(role).read(SECTIONS), atol=1e-5)


class Noting(RememberingEncoder):
    """Notes what its texts are read under."""

    def encode_views(self, texts, instructions, **options):
        self.under.update(instructions)
        return super().encode_views(texts, instructions, **options)


@pytest.mark.parametrize("asked", [["Find causes."], ["Find causes.", "Find colours.", "Find moods."]])
def test_instructions_that_queries_carry_are_searched_for_among_bare_documents(family, tmp_path, asked):
    encoder = Noting(load_encoder(f"st:{family('qwen3-embedding')}", device="cpu"))
    encoder.under = set()
    instructions = [asked[place % len(asked)] for place in range(len(QUESTIONS))]
    corpus = [Document(str(place), text) for place, text in enumerate(SECTIONS)]
    with IndexSearchPath(encoder, folder=tmp_path) as search:
        rankings = search(corpus, QUESTIONS, instructions=instructions, mode="dense", k=6)
    assert encoder.under == {""}
    stock = SentenceTransformer(str(family("qwen3-embedding")), device="cpu")
    bare = normalise(stock.encode(SECTIONS, prompt=""))
    for ranking, query, instruction in zip(rankings, QUESTIONS, instructions, strict=True):
        vector = normalise(stock.encode([query], prompt=f"Instruct: {instruction}\nQuery:"))[0]
        assert dict(ranking) == pytest.approx(dict(zip("012345", (bare @ vector).tolist(), strict=True)), abs=1e-3)


def test_queries_are_read_once_an_instruction(family):
    encoder = load_encoder(f"st:{family('embedding-gemma')}", device="cpu")
    remembering = RememberingEncoder(encoder)
    first = remembering.encode_queries(QUESTIONS[:2], instruction="Find causes.")
    encoder.encode_queries = lambda queries, *, instruction: pytest.fail(f"{queries} are read again")
    again = remembering.encode_queries(QUESTIONS[1::-1], instruction=" Find causes.")
    np.testing.assert_array_equal(again, first[::-1])
