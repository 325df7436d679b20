"""Tiny random sentence encoders with the modules, tokenizers and prompts of published families.

Prompts and settings are those of the families' own files; weights are noise.
"""

import json
from functools import partial
from pathlib import Path

import torch
from tiny_models import (
    ALPHABET,
    BERT_TOKENS,
    HIDDEN,
    TRAINING,
    around,
    bert,
    byte_level,
    edit_json,
    metaspace,
    modules,
    roberta_shape,
    save,
    shape,
    word_pieces,
)
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
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

SEARCH = "Given a web search query, retrieve relevant passages that answer the query"
WITHOUT_HEAD = partial(BertModel, add_pooling_layer=False)
XLMR_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def published(folder: Path, *parts: str, pooling: str, most: int = 64) -> Path:
    """Make `modules` of a saved model without prompts, as folders have it from before these were registered."""
    modules(folder, *parts, pooling=pooling, most=most)
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
    return published(bert(folder / "e5-small-v2", WITHOUT_HEAD, seed=13), "Normalize", pooling="mean")


def build_bge(folder: Path) -> Path:
    return published(bert(folder / "bge-small-en-v1.5", WITHOUT_HEAD, seed=14), "Normalize", pooling="cls")


def build_multilingual_e5(folder: Path) -> Path:
    torch.manual_seed(15)
    folder = folder / "multilingual-e5-small"
    tokenizer = around(unigram(["<s>", "<pad>", "</s>", "<unk>"]), "<s>", "</s>")
    config = XLMRobertaConfig(**roberta_shape(tokenizer))
    save(folder, XLMRobertaModel(config, add_pooling_layer=False), tokenizer, XLMR_TOKENS)
    return published(folder, "Normalize", pooling="mean")


def build_nomic(folder: Path) -> Path:
    torch.manual_seed(16)
    tokenizer = around(word_pieces(list(BERT_TOKENS.values())), "[CLS]", "[SEP]")
    config = NomicBertConfig(**shape(vocab_size=tokenizer.get_vocab_size()), pad_token_id=0)
    return published(save(folder, NomicBertModel(config), tokenizer, BERT_TOKENS), pooling="mean")


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
