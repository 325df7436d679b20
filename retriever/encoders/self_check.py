"""Does a sentence encoder rank? Three known examples tell, and what its folder says about the token that it pools.

A model that fails is not refused: the examples are English, and a model may be for something else.
"""

from dataclasses import dataclass

from retriever.core.protocols import Encoder
from retriever.encoders.families import poolings
from retriever.encoders.sentence_encoder import SentenceEncoder, StockModel
from retriever.encoders.sources import MODULES


@dataclass(frozen=True, slots=True)
class Triple:
    """A query, a document that answers it, and one that shares its words and does not."""

    anchor: str
    near: str
    far: str


TRIPLES = (
    Triple("Where can I park the car?", "Vehicles stand in the garage behind the hotel.", "Where can I cook the rice?"),
    Triple("Why is the child crying?", "The baby is hungry and weeps.", "Why is the market rising?"),
    Triple("What do cats eat?", "Kittens are fed on fish and meat.", "What do shares cost?"),
)

_SECOND = "Given a question, find the sentence that is about the same thing"


def weaknesses(encoder: Encoder) -> list[str]:
    """Return a sentence for everything that is probably wrong with an encoder, with what usually mends it.

    Raises:
        EncoderError: its vectors are not numbers.
    """
    name, prompts = encoder.spec.label, encoder.spec.prompts
    mends = _MENDS if encoder.memory() is None else _SERVER_MENDS
    said = _in_its_folder(encoder) if isinstance(encoder, SentenceEncoder) else []
    instructions = ["", _SECOND] if prompts.instructed else [""]
    wrong = {instruction: _ranked_wrongly(encoder, instruction) for instruction in instructions}
    for instruction, count in wrong.items():
        under = f' under "{instruction}"' if instruction else ""
        if count and (instruction == "" or not wrong[""]):
            said.append(f"{name} ranks {count} of {len(TRIPLES)} plain English examples wrongly{under}: {mends}")
    return said


_MENDS = "its pooling (1_Pooling), its prompts (st:NAME,query=TEXT,document=TEXT) or some weights may be missing."
_SERVER_MENDS = (
    "its prompts (http:URL#MODEL,query=TEXT,document=TEXT) may be missing, or its server may pool in another way, or "
    "serve a model that gives no embeddings."
)


def _ranked_wrongly(encoder: Encoder, instruction: str) -> int:
    queries = encoder.encode_queries([triple.anchor for triple in TRIPLES], instruction=instruction)
    texts = encoder.encode([text for triple in TRIPLES for text in (triple.near, triple.far)])
    near, far = texts[::2], texts[1::2]
    return int(((queries * near).sum(axis=1) <= (queries * far).sum(axis=1)).sum())


def _in_its_folder(encoder: SentenceEncoder) -> list[str]:
    """Return what the files of a model leave open about its pooling."""
    name, folder = encoder.spec.label, encoder.source.folder
    if not (folder / MODULES).exists():
        return [f"{name} has no modules.json, so its tokens are averaged: fetch modules.json and 1_Pooling too."]
    last = "lasttoken" in poolings(folder)
    if last and isinstance(encoder.model, StockModel) and not encoder.model.ends_texts:
        return [
            f"{name} pools the last token, and its tokenizer puts no end token there: "
            "the tokenizer.json that the model was published with usually does."
        ]
    return []
