"""Tiny random sentence encoders with the modules, tokenizers and prompts of published families.

Prompts and settings are those of the families' own files; weights are noise.
"""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    BertConfig,
    BertModel,
    Gemma3TextConfig,
    Gemma3TextModel,
    MistralConfig,
    MistralModel,
    NomicBertConfig,
    NomicBertModel,
    Qwen3Config,
    Qwen3ForCausalLM,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from tests.tiny_models import (
    ALPHABET,
    HIDDEN,
    TRAINING,
    around,
    byte_level,
    edit_json,
    metaspace,
    save,
    shape,
    word_pieces,
)

SEARCH = "Given a web search query, retrieve relevant passages that answer the query"
BERT_TOKENS = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
XLMR_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def modules(folder: Path, *parts: str, pooling: str, most: int, prompts: dict | None = None) -> Path:
    """Turn a saved model into a sentence-transformers folder; a part is Pooling, Normalize, or Dense:IN:OUT."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

    torch.manual_seed(8)
    layers: list[torch.nn.Module] = [Transformer(str(folder), max_seq_length=most), Pooling(HIDDEN, pooling)]
    for part in parts:
        kind, *sizes = part.split(":")
        dense = kind == "Dense" and Dense(*map(int, sizes), bias=False, activation_function=torch.nn.Identity())
        layers.append(dense or Normalize())
    model = SentenceTransformer(modules=layers, prompts=prompts, device="cpu")
    model.save(str(folder), safe_serialization=True, create_model_card=False)
    if prompts is None:  # as folders have it that were published before prompts were registered
        (folder / "config_sentence_transformers.json").write_text(json.dumps({"__version__": {}}))
    return folder


def unigram(special: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=400, special_tokens=special, unk_token="<unk>", initial_alphabet=ALPHABET, show_progress=False
    )
    tokenizer.train_from_iterator(TRAINING, trainer)
    return tokenizer


def build_qwen3_embedding(folder: Path) -> Path:
    """A causal model whose last token, an end token that the tokenizer adds, is pooled."""
    torch.manual_seed(11)
    tokenizer = around(byte_level(["<|endoftext|>", "<|im_start|>", "<|im_end|>"]), "", "<|endoftext|>")
    config = Qwen3Config(
        **shape(num_key_value_heads=2, vocab_size=tokenizer.get_vocab_size()),
        head_dim=16,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )
    special = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    save(folder, Qwen3ForCausalLM(config), tokenizer, special)
    prompts = {"query": f"Instruct: {SEARCH}\nQuery:", "document": ""}
    modules(folder, "Normalize", pooling="lasttoken", most=64, prompts=prompts)
    edit_json(folder / "config.json", architectures=["Qwen3ForCausalLM"])  # as the published folder has it
    return folder


def build_embedding_gemma(folder: Path) -> Path:
    """A model that attends to both sides, with two dense layers behind a mean."""
    torch.manual_seed(12)
    tokenizer = around(metaspace(["<pad>", "<eos>", "<bos>", "<unk>"]), "<bos>", "<eos>")
    config = Gemma3TextConfig(
        **shape(num_key_value_heads=2, vocab_size=tokenizer.get_vocab_size()),
        head_dim=16,
        sliding_window=16,
        use_bidirectional_attention=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=2,
    )
    special = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
    save(folder, Gemma3TextModel(config), tokenizer, special)
    prompts = {"query": "task: search result | query: ", "document": "title: none | text: "}
    prompts["Clustering"] = "task: clustering | query: "
    dense = (f"Dense:{HIDDEN}:48", f"Dense:48:{HIDDEN}")
    return modules(folder, *dense, "Normalize", pooling="mean", most=64, prompts=prompts)


def build_e5(folder: Path) -> Path:
    return _bert(folder / "e5-small-v2", "mean", seed=13)


def build_bge(folder: Path) -> Path:
    return _bert(folder / "bge-small-en-v1.5", "cls", seed=14)


def _bert(folder: Path, pooling: str, seed: int) -> Path:
    torch.manual_seed(seed)
    tokenizer = around(word_pieces(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]), "[CLS]", "[SEP]")
    config = BertConfig(**shape(vocab_size=tokenizer.get_vocab_size()), max_position_embeddings=128, pad_token_id=0)
    save(folder, BertModel(config, add_pooling_layer=False), tokenizer, BERT_TOKENS | {"mask_token": "[MASK]"})
    return modules(folder, "Normalize", pooling=pooling, most=64)


def build_multilingual_e5(folder: Path) -> Path:
    torch.manual_seed(15)
    folder = folder / "multilingual-e5-small"
    tokenizer = around(unigram(["<s>", "<pad>", "</s>", "<unk>"]), "<s>", "</s>")
    config = XLMRobertaConfig(
        **shape(vocab_size=tokenizer.get_vocab_size()),
        max_position_embeddings=130,
        type_vocab_size=1,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
    )
    save(folder, XLMRobertaModel(config, add_pooling_layer=False), tokenizer, XLMR_TOKENS)
    return modules(folder, "Normalize", pooling="mean", most=64)


def build_nomic(folder: Path) -> Path:
    torch.manual_seed(16)
    tokenizer = around(word_pieces(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]), "[CLS]", "[SEP]")
    config = NomicBertConfig(**shape(vocab_size=tokenizer.get_vocab_size()), pad_token_id=0)
    save(folder, NomicBertModel(config), tokenizer, BERT_TOKENS | {"mask_token": "[MASK]"})
    return modules(folder, pooling="mean", most=64)


def build_e5_mistral(folder: Path) -> Path:
    """Instructions that are registered by task, and none as the query's."""
    torch.manual_seed(17)
    tokenizer = around(metaspace(["<unk>", "<s>", "</s>", "<pad>"]), "<s>", "</s>")
    config = MistralConfig(
        **shape(num_key_value_heads=2, vocab_size=tokenizer.get_vocab_size()),
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=3,
    )
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    save(folder, MistralModel(config), tokenizer, special)
    prompts = {"sts_query": "Instruct: Retrieve semantically similar text\nQuery: "}
    prompts["web_search_query"] = f"Instruct: {SEARCH}\nQuery: "
    return modules(folder, "Normalize", pooling="lasttoken", most=64, prompts=prompts)


FAMILIES = {
    "qwen3-embedding": build_qwen3_embedding,
    "embedding-gemma": build_embedding_gemma,
    "e5": build_e5,
    "bge": build_bge,
    "multilingual-e5": build_multilingual_e5,
    "nomic": build_nomic,
    "e5-mistral": build_e5_mistral,
}

PROMPTS = {
    "qwen3-embedding": (f"Instruct: {SEARCH}\nQuery:", ""),
    "embedding-gemma": ("task: search result | query: ", "title: none | text: "),
    "e5": ("query: ", "passage: "),
    "bge": ("Represent this sentence for searching relevant passages: ", ""),
    "multilingual-e5": ("query: ", "passage: "),
    "nomic": ("search_query: ", "search_document: "),
    "e5-mistral": (f"Instruct: {SEARCH}\nQuery: ", ""),
}
"""What stands before queries and before documents of each."""
