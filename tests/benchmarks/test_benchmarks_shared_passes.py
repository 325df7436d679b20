import pytest
from shared_passes import POOLINGS, SharedPasses

from retriever.core.fingerprint import content_hash
from retriever.encoders.gircse import GircseEncoder
from retriever.encoders.inbedder import InBedderEncoder
from retriever.encoders.options import EncoderOptions
from retriever.evaluation.run.embedding_cache import EmbeddingCache
from retriever.index.encoding import describe, view_key

TEXTS = ["the toy broke", "kettle boils water fast, and it is heavy", "x", "", "the toy broke"]
INSTRUCTIONS = ["what kind of product", ""]


def test_one_pass_gives_every_pooling_what_its_own_pass_would(backbone, tmp_path):
    encoder = InBedderEncoder(backbone("llama"), EncoderOptions(pooling="last-gen"))
    with EmbeddingCache(tmp_path / "cache.sqlite3") as cache:
        shared_passes = SharedPasses.sharing_poolings(encoder, cache)
        assert describe(shared_passes) == describe(encoder)
        own = shared_passes.encode_many(TEXTS, INSTRUCTIONS)
        for pooling in POOLINGS:
            alone = encoder.reconfigured(pooling=pooling)
            for instruction, expected, shared in zip(
                INSTRUCTIONS, alone.encode_many(TEXTS, INSTRUCTIONS), own, strict=True
            ):
                kept = cache.get(view_key(alone, instruction), [content_hash(text) for text in TEXTS])
                assert len(kept) == len(set(TEXTS))
                for text, vector, row in zip(TEXTS, expected, shared, strict=True):
                    assert kept[content_hash(text)] == pytest.approx(vector, abs=1e-5)
                    if pooling == "last-gen":
                        assert row == pytest.approx(vector, abs=1e-5)


def test_one_run_gives_every_smaller_number_of_steps(backbone, tmp_path):
    encoder = GircseEncoder(backbone("llama"), EncoderOptions(steps=4))
    with EmbeddingCache(tmp_path / "cache.sqlite3") as cache:
        shared_passes = SharedPasses.sharing_steps(encoder, cache, (1, 3, 4))
        assert describe(shared_passes) == describe(encoder)
        [own] = shared_passes.encode_many(TEXTS, INSTRUCTIONS[:1])
        for steps in (1, 3, 4):
            alone = encoder.reconfigured(steps=steps)
            kept = cache.get(view_key(alone, INSTRUCTIONS[0]), [content_hash(text) for text in TEXTS])
            for text, vector in zip(TEXTS, alone.encode(TEXTS, instruction=INSTRUCTIONS[0]), strict=True):
                assert kept[content_hash(text)] == pytest.approx(vector, abs=1e-5)
        assert own == pytest.approx(encoder.encode(TEXTS, instruction=INSTRUCTIONS[0]), abs=1e-5)
