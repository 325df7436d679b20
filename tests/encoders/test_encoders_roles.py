import numpy as np
import pytest

from retriever import load_encoder
from retriever.core.fingerprint import json_hash
from retriever.core.roles import RolePrompts
from retriever.core.similarity import normalise
from retriever.encoders.bert.encoder import BertEncoder
from retriever.encoders.sources import folder_digest
from tests.tiny_families import FAMILIES, SEARCH

TEXTS = ["the toy broke", "kettle boils water fast, and it is heavy", "x", "a sharp knife " * 30]

PROMPTS = {
    "qwen3-embedding": (f"Instruct: {SEARCH}\nQuery:", ""),
    "embedding-gemma": ("task: search result | query: ", "title: none | text: "),
    "e5": ("query: ", "passage: "),
    "bge": ("Represent this sentence for searching relevant passages: ", ""),
    "multilingual-e5": ("query: ", "passage: "),
    "nomic": ("search_query: ", "search_document: "),
    "e5-mistral": (f"Instruct: {SEARCH}\nQuery: ", ""),
}
ORIGINS = {
    "qwen3-embedding": "registered in its config_sentence_transformers.json",
    "embedding-gemma": "registered in its config_sentence_transformers.json",
    "e5": "E5, by its name",
    "bge": "English BGE, by its name",
    "multilingual-e5": "E5, by its name",
    "nomic": "Nomic Embed, by its architecture",
    "e5-mistral": "registered in its config_sentence_transformers.json",
}


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    """Build a family's tiny model, once."""
    built = {}

    def get(name):
        if name not in built:
            built[name] = FAMILIES[name](tmp_path_factory.mktemp("family"))
        return built[name]

    return get


def stock(folder):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu")


def close(vectors, expected, within=1e-5):
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, normalise(expected), atol=within)


def documents(encoder):
    """Documents in float32, in which a BERT reads queries alone."""
    if isinstance(encoder.model, BertEncoder):
        prompts = [encoder.spec.prompts.before_document() + text for text in TEXTS]
        vectors = np.zeros((len(TEXTS), encoder.dim), dtype=np.float32)
        for rows, read in encoder.model.read_queries(prompts):
            vectors[rows] = read
        assert (normalise(vectors) * encoder.encode(TEXTS)).sum(axis=1).min() > 0.999
        return normalise(vectors)
    return encoder.encode(TEXTS)


@pytest.mark.parametrize("name", FAMILIES)
def test_each_role_has_its_prompt_and_the_vectors_of_sentence_transformers(family, name):
    folder, (query, document) = family(name), PROMPTS[name]
    encoder, theirs = load_encoder(f"st:{folder}", device="cpu"), stock(folder)
    prompts = encoder.spec.prompts
    assert (prompts.before_query(), prompts.before_document(), prompts.origin) == (query, document, ORIGINS[name])
    close(encoder.encode_queries(TEXTS), theirs.encode_query(TEXTS, prompt=query))
    close(documents(encoder), theirs.encode_document(TEXTS, prompt=document))
    if theirs.prompts["query"]:
        close(encoder.encode_queries(TEXTS), theirs.encode_query(TEXTS))
        close(encoder.encode(TEXTS), theirs.encode_document(TEXTS))


def test_a_model_without_prompts_keeps_its_fingerprint(tiny):
    encoder = load_encoder(f"st:{tiny('sentence')}", device="cpu")
    assert encoder.fingerprint == json_hash({"method": "st", "backbone": folder_digest(tiny("sentence"))})
    assert encoder.spec.prompts == RolePrompts()
    close(encoder.encode_queries(TEXTS), stock(tiny("sentence")).encode_query(TEXTS))


def test_prompts_and_dimensions_are_part_of_the_fingerprint(tiny):
    plain = f"st:{tiny('sentence')}"
    named = [plain, f"{plain},query=find: ", f"{plain},document=find: ", f"{plain},dim=16", f"{plain},dim=32"]
    assert len({load_encoder(name, device="cpu").fingerprint for name in named}) == len(named)
