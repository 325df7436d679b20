"""The token ids that reach a model are those that sentence-transformers feeds it, for each role of each family."""

import pytest
from sentence_transformers import SentenceTransformer
from tiny_families import FAMILIES, PROMPTS

from retriever import load_encoder
from retriever.encoders.bert.arrays import ArrayBert
from retriever.encoders.bert.encoder import BertEncoder

TEXTS = [
    "the toy broke",
    "  kettle boils\nwater fast, and it is heavy\t",
    "a [SEP] and an </s> that <|endoftext|> spells out",
    "Ça coûte 3 €, naïve",
    "x",
    "a sharp knife " * 40,
]
CAUSES = "Find causes."
BY_HAND = {
    **{
        name: ({"prompt": PROMPTS[name][0]}, {"prompt": PROMPTS[name][1]})
        for name in ("e5", "multilingual-e5", "nomic")
    },
    "bge": ({"prompt": PROMPTS["bge"][0]}, {}),
    "e5-mistral": ({"prompt_name": "web_search_query"}, {}),
}
"""What the model cards say to pass to `encode_query` and `encode_document`; nothing where prompts are registered."""
INSTRUCTED = {"qwen3-embedding": f"Instruct: {CAUSES}\nQuery:", "e5-mistral": f"Instruct: {CAUSES}\nQuery: "}
"""Prompts under an instruction, as the model cards of these families write them."""


def watched(modules):
    """Return a list that gets the ids of every text which a sentence-transformers model reads."""
    fed = []

    def note(_, given):
        (features,) = given
        rows = zip(features["input_ids"], features["attention_mask"].bool(), strict=True)
        fed.extend(ids[kept].tolist() for ids, kept in rows)

    modules[0].register_forward_pre_hook(note)
    return fed


def watched_bert(model, monkeypatch):
    """Return a list that gets the ids of every text which one of our own models reads, with NumPy or torch."""
    fed, read = [], ArrayBert.read

    def note(pack):
        for run in pack.runs:
            fed.extend(pack.ids[run.tokens].reshape(run.texts, run.length).tolist())

    def noting(arrays, pack):
        note(pack)
        return read(arrays, pack)

    monkeypatch.setattr(ArrayBert, "read", noting)
    model._in_torch().register_forward_pre_hook(lambda _, given: note(*given))
    return fed


def watched_encoder(folder, monkeypatch):
    """Return an encoder, and what gets the ids that reach its model."""
    encoder = load_encoder(f"st:{folder}", device="cpu")
    if isinstance(encoder.model, BertEncoder):
        return encoder, watched_bert(encoder.model, monkeypatch)
    return encoder, watched(encoder.model._model)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_ids_of_each_role_are_those_that_sentence_transformers_feeds_the_model(family, name, monkeypatch):
    encoder, ours = watched_encoder(family(name), monkeypatch)
    stock = SentenceTransformer(str(family(name)), device="cpu")
    theirs = watched(stock)
    query, document = BY_HAND.get(name, ({}, {}))
    for read, expect in (
        (encoder.encode_queries, lambda: stock.encode_query(TEXTS, **query)),
        (encoder.encode, lambda: stock.encode_document(TEXTS, **document)),
    ):
        ours.clear()
        theirs.clear()
        read(TEXTS)
        expect()
        assert len(ours) == len(TEXTS)
        assert sorted(ours) == sorted(theirs)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_ids_under_an_instruction_are_those_of_a_prompt_that_holds_it(family, name, monkeypatch):
    encoder, ours = watched_encoder(family(name), monkeypatch)
    stock = SentenceTransformer(str(family(name)), device="cpu")
    theirs = watched(stock)
    query, document = (f"{prompt}{CAUSES} " for prompt in PROMPTS[name])
    if name in INSTRUCTED:
        query = document = INSTRUCTED[name]
    for read, prompt in ((encoder.encode_queries, query), (encoder.encode, document)):
        ours.clear()
        theirs.clear()
        read(TEXTS, instruction=CAUSES)
        stock.encode(TEXTS, prompt=prompt)
        assert len(ours) == len(TEXTS)
        assert sorted(ours) == sorted(theirs)
