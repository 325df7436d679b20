"""The real mteb package scores our encoder and our index as we do, on data made up here, without a network."""

import hashlib
import json

import numpy as np
import pytest
from sklearn.cluster import MiniBatchKMeans

from retriever.core.errors import InputError, UsageError
from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.similarity import normalise
from retriever.core.types import Encoded
from retriever.evaluation import generic
from retriever.evaluation.instructed_retrieval import MAMS_ASPECTS, mams, pairs
from retriever.evaluation.metrics import v_measure
from retriever.evaluation.run.mteb_encoder import MtebEncoder, MtebSearch, task_instruction
from retriever.evaluation.suites import Bench, DataFile

mteb = pytest.importorskip("mteb")
datasets = pytest.importorskip("datasets")

from mteb._evaluators.retrieval_metrics import evaluate_p_mrr_change  # noqa: E402
from mteb.abstasks import AbsTaskRetrieval, AbsTaskSTS  # noqa: E402
from mteb.abstasks.clustering_legacy import AbsTaskClusteringLegacy  # noqa: E402
from mteb.abstasks.task_metadata import TaskMetadata  # noqa: E402
from mteb.models import EncoderProtocol, SearchProtocol  # noqa: E402
from mteb.types import PromptType  # noqa: E402

DIM = 24
CLOSE = 1e-4
ADJECTIVES = "slow fast warm cold bright dark".split()
THINGS = "kettle lamp phone bike".split()


def noise(text):
    """A direction of a text's own, the same in every run."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(DIM)


class NoisyEncoder(Encoder):
    """The sum of its words' directions and one of the whole text; an instruction adds its own and turns the rest."""

    spec = EncoderSpec("ab" * 32, DIM, name="some/noisy")

    def __init__(self):
        self.read = set()

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        return [Encoded(self.rows(texts, one), [[] for _ in texts]) for one in instructions]

    def rows(self, texts, instruction):
        self.read |= {(text, instruction) for text in texts}
        rows = [sum(noise(f"{word}{instruction}") for word in text.split()) + 1.5 * noise(text) for text in texts]
        return normalise(np.array(rows).reshape(-1, DIM))


@pytest.fixture
def encoder():
    return NoisyEncoder()


def metadata(kind, main_score, prompt=None):
    return TaskMetadata(
        name=f"Local{kind}",
        description="Made up for a test.",
        dataset={"path": "nowhere/nothing", "revision": "1"},
        type=kind,
        category="t2t",
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score=main_score,
        prompt=prompt,
    )


def task(base, kind, main_score, dataset, prompt=None):
    """An mteb task over data in memory."""
    one = type(f"Local{kind}", (base,), {"metadata": metadata(kind, main_score, prompt)})()
    one.dataset, one.data_loaded = dataset, True
    return one


def judged(model, one):
    """Every score mteb gives a model on a task."""
    results = mteb.evaluate(model, [one], cache=None, co2_tracker=False, show_progress_bar=False)
    (scores,) = results.task_results[0].scores["test"]
    return scores


def write(folder, name, rows):
    (folder / name).write_text("\n".join(map(json.dumps, rows)))


def test_the_models_are_what_mteb_takes(encoder):
    with MtebSearch(encoder) as search:
        assert isinstance(search, SearchProtocol)
        assert search.mteb_model_meta.name == "retriever/some__noisy-dense"
    model = MtebEncoder(encoder)
    assert isinstance(model, EncoderProtocol)
    assert not isinstance(model, SearchProtocol)
    meta = model.mteb_model_meta
    assert (meta.name, meta.revision, meta.embed_dim) == ("retriever/some__noisy", "ab" * 20, DIM)
    a, b = encoder.encode(["one", "two"]), encoder.encode(["two", "three"])
    assert np.allclose(model.similarity(a, b), a @ b.T)
    assert np.allclose(model.similarity_pairwise(a, b), np.diag(a @ b.T))


def test_clustering(encoder):
    """mteb runs one MiniBatchKMeans where ours runs KMeans; with its settings our V-measure is the same."""
    texts = [f"{adjective} {thing} {n}" for adjective in ADJECTIVES for thing in THINGS for n in range(3)]
    labels = [THINGS.index(text.split()[1]) for text in texts]
    data = {"test": datasets.Dataset.from_dict({"sentences": [texts], "labels": [labels]})}
    prompt = "What is it?"
    theirs = judged(MtebEncoder(encoder), task(AbsTaskClusteringLegacy, "Clustering", "v_measure", data, prompt))
    assert encoder.read == {(text, prompt) for text in texts}
    kmeans = MiniBatchKMeans(n_clusters=4, batch_size=500, n_init="auto", random_state=42)
    clusters = kmeans.fit(encoder.encode(texts, instruction=prompt)).labels_
    assert 0.05 < theirs["main_score"] < 0.95
    assert v_measure(np.array(labels), clusters) == pytest.approx(theirs["main_score"], abs=CLOSE)


def test_similarity(encoder, search, tmp_path):
    rng = np.random.default_rng(0)
    texts = [f"{rng.choice(ADJECTIVES)} {rng.choice(THINGS)}" for _ in range(80)]
    rows = [
        {"id": str(n), "a": a, "b": b, "score": float(len(set(a.split()) & set(b.split()))), "split": "test"}
        for n, (a, b) in enumerate(zip(texts[::2], texts[1::2], strict=True))
    ]
    write(tmp_path, DataFile.SENTENCE_PAIRS, rows)
    columns = {"sentence1": "a", "sentence2": "b", "score": "score"}
    data = {"test": datasets.Dataset.from_dict({name: [row[key] for row in rows] for name, key in columns.items()})}
    theirs = judged(MtebEncoder(encoder), task(AbsTaskSTS, "STS", "cosine_spearman", data))
    (ours,) = generic.sts(Bench(tmp_path, encoder, search))
    assert 0.2 < theirs["main_score"] < 0.99
    assert ours.value / 100 == pytest.approx(theirs["main_score"], abs=CLOSE)
    assert theirs["spearman"] == pytest.approx(theirs["main_score"], abs=CLOSE)  # the model's own similarity


def corpus_and_queries():
    corpus = [
        {"id": f"d{n:02d}", "text": f"{adjective} {thing} of {other}"}
        for n, (adjective, thing, other) in enumerate(
            (adjective, thing, other) for adjective in ADJECTIVES for thing in THINGS for other in ("Ann", "Ben")
        )
    ]
    queries = [
        {"id": f"q{n}", "text": f"{adjective} {thing} please", "relevant": [f"d{2 * n + 1:02d}"]}
        for n, (adjective, thing) in enumerate((adjective, thing) for adjective in ADJECTIVES for thing in THINGS)
    ]
    return corpus, queries


def retrieval_data(corpus, queries, relevant, top_ranked=None):
    split = {
        "corpus": datasets.Dataset.from_list(corpus),
        "queries": datasets.Dataset.from_list(queries),
        "relevant_docs": relevant,
        "top_ranked": top_ranked,
    }
    return {"default": {"test": split}}


@pytest.fixture
def retrieval(tmp_path):
    """An mteb retrieval task, and the same data as our files."""
    corpus, queries = corpus_and_queries()
    write(tmp_path, DataFile.PASSAGES, corpus)
    write(tmp_path, DataFile.WEB_QUERIES, queries)
    relevant = {query["id"]: dict.fromkeys(query["relevant"], 1) for query in queries}
    texts = [{"id": query["id"], "text": query["text"]} for query in queries]
    return task(AbsTaskRetrieval, "Retrieval", "ndcg_at_10", retrieval_data(corpus, texts, relevant))


def test_retrieval(encoder, search, tmp_path, retrieval):
    ours = {(one.task, one.metric): one.value / 100 for one in generic.retrieval(Bench(tmp_path, encoder, search))}
    models = {"dense": MtebEncoder(encoder)}  # mteb compares all with all itself
    for mode in ("dense", "lexical", "hybrid"):
        models[f"{mode} index"] = MtebSearch(encoder, mode=mode)
    for name, model in models.items():
        theirs, mode = judged(model, retrieval), name.split()[0]
        assert 0.2 < theirs["main_score"] < 1
        assert ours[f"retrieval {mode}", "nDCG@10"] == pytest.approx(theirs["ndcg_at_10"], abs=CLOSE)
        if name != "dense":
            assert ours[f"retrieval {mode}", "recall@100"] == pytest.approx(theirs["recall_at_100"], abs=CLOSE)
            assert ours[f"retrieval {mode}", "MAP"] == pytest.approx(theirs["map_at_100"], abs=CLOSE)
            model.close()
    assert len({ours[f"retrieval {mode}", "nDCG@10"] for mode in ("dense", "lexical", "hybrid")}) == 3


class LocalInstructionRetrieval(AbsTaskRetrieval):
    """FollowIR's form: every query twice, ``-og`` and ``-changed``, and the documents the change made irrelevant."""

    metadata = metadata("InstructionRetrieval", "p-MRR")

    def task_specific_scores(self, scores, qrels, results, hf_split, hf_subset):
        return evaluate_p_mrr_change(qrels, results, self.removed, self.k_values)


def test_instruction_retrieval(encoder, search, tmp_path):
    kinds = {"negative": "bad awful poor".split(), "positive": "good lovely fine".split()}
    reviews = [
        {
            "id": f"r{n:02d}",
            "text": f"{word} {aspect}",
            "aspects": [{"aspect": aspect, "polarity": polarity}],
            "split": "test",
        }
        for n, (aspect, polarity, word) in enumerate(
            (aspect, polarity, word)
            for aspect in ("food", "service", "ambience", "price", "menu")
            for polarity, words in kinds.items()
            for word in words
        )
    ]
    write(tmp_path, DataFile.MAMS, reviews)
    ndcg, p_mrr = mams(Bench(tmp_path, encoder, search))
    theirs = judged_pairs(encoder, reviews)
    assert abs(p_mrr.value) > 0.1
    assert p_mrr.value / 100 == pytest.approx(theirs["p-MRR"], abs=CLOSE)
    assert p_mrr.value / 100 == pytest.approx(theirs["main_score"], abs=CLOSE)
    assert ndcg.value / 100 == pytest.approx(theirs["og"]["ndcg_at_10"], abs=CLOSE)
    assert 0.1 < theirs["og"]["ndcg_at_10"] < 1


def judged_pairs(encoder, reviews):
    """Mteb's figures for the index on the pairs that our suite makes of the reviews."""

    def holding(need):
        wanted = {(kind, need.polarity) for kind in MAMS_ASPECTS[need.aspect]}
        return {one["id"]: 1 for one in reviews if {(a["aspect"], a["polarity"]) for a in one["aspects"]} & wanted}

    one = LocalInstructionRetrieval()
    queries, relevant, one.removed = [], {}, {}
    for number, asked in enumerate(pairs(list(MAMS_ASPECTS))):
        for name, need in (("og", asked.need), ("changed", asked.changed)):
            queries.append({"id": f"{number}-{name}", "text": asked.query, "instruction": need.instruction})
            relevant[f"{number}-{name}"] = holding(need)
        one.removed[str(number)] = sorted(set(holding(asked.need)) - set(holding(asked.changed)))
    corpus = [{"id": review["id"], "text": review["text"]} for review in reviews]
    one.dataset, one.data_loaded = retrieval_data(corpus, queries, relevant), True
    with MtebSearch(encoder) as model:
        return judged(model, one)


def test_an_encoder_reads_every_query_under_its_own_instruction(encoder):
    corpus, queries = corpus_and_queries()
    asked = [{"id": one["id"], "text": one["text"], "instruction": f"by {one['id']}"} for one in queries[:3]]
    relevant = {one["id"]: {"d00": 1} for one in asked}
    one = task(
        AbsTaskRetrieval, "InstructionRetrieval", "ndcg_at_10", retrieval_data(corpus, asked, relevant), "not me"
    )
    judged(MtebEncoder(encoder), one)
    assert encoder.read == {(query["text"], query["instruction"]) for query in asked} | {
        (document["text"], "") for document in corpus
    }


@pytest.mark.parametrize(
    "prompt, for_queries, for_documents, for_texts",
    [
        (None, "", "", ""),
        ("Find it.", "Find it.", "", "Find it."),
        ({"query": "Find it."}, "Find it.", "", "Find it."),
        ({"query": "Find it.", "document": "Keep it."}, "Find it.", "Keep it.", "Find it."),
    ],
)
def test_the_prompt_of_a_task_is_the_instruction(prompt, for_queries, for_documents, for_texts):
    task_metadata = metadata("Retrieval", "ndcg_at_10", prompt)
    assert task_instruction(task_metadata, PromptType.query.value) == for_queries
    assert task_instruction(task_metadata, PromptType.document.value) == for_documents
    assert task_instruction(task_metadata, None) == for_texts


def test_titles_are_read_and_empty_documents_left_out(encoder):
    with MtebSearch(encoder, mode="lexical") as model:
        model.index([{"id": "1", "title": "Kettle", "text": "hot"}, {"id": "2", "title": None, "text": " "}])
        query = [{"id": "q", "text": "kettle"}]
        assert list(model.search(query, task_metadata=metadata("Retrieval", "map"), top_k=5)["q"]) == ["1"]


def test_searches_that_make_no_sense_are_refused(encoder):
    task_metadata = metadata("Retrieval", "map")
    with MtebSearch(encoder) as model:
        with pytest.raises(UsageError, match="no corpus"):
            model.search([{"id": "q", "text": "x"}], task_metadata=task_metadata, top_k=1)
        model.index([{"id": "1", "text": "x"}])
        with pytest.raises(InputError, match="'q' is a conversation"):
            model.search([{"id": "q", "text": [{"role": "user"}]}], task_metadata=task_metadata, top_k=1)
