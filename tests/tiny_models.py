"""Tiny random language models with tokenizers made in memory, saved the way the real ones are."""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    ModernBertConfig,
    ModernBertForMaskedLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    RobertaConfig,
    RobertaForMaskedLM,
)

WORDS = (
    "the a is it of and to toy kettle knife lamp cable broke broken boils water fast slow light heavy sharp dull "
    "love hate terrible wonderful child dog battery plug lid handle red blue green mood product kind about what which "
    "material answer instruction input response query text words few that represent meaning based on in"
).split()
SENTENCES = [f"{a} {b}, {c.capitalize()}\n" for a, b, c in zip(WORDS, WORDS[1:], WORDS[2:], strict=False)] * 3
PROMPT = "### Input:\nfoo\n\n### Instruction:\nbar\n\n### Response: Instruct: x\nQuery:"
TRAINING = [*SENTENCES, *[PROMPT] * 9]
ALPHABET = sorted(
    set(PROMPT + "".join(SENTENCES) + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,!?#<>|_/[]'")
)

BERT_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
LAYERS, HIDDEN, HEADS = 2, 32, 4
SPREAD = 0.15  # standard deviation of the weights: wide enough that every token read moves the states


def byte_level(special: list[str], size: int = 640) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TRAINING, trainer)
    return tokenizer


def metaspace(special: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=640, special_tokens=special, initial_alphabet=[*ALPHABET, "\n"], show_progress=False
    )
    tokenizer.train_from_iterator(TRAINING, trainer)
    return tokenizer


def word_pieces(special: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=300, special_tokens=special, initial_alphabet=ALPHABET, show_progress=False
    )
    tokenizer.train_from_iterator(TRAINING, trainer)
    return tokenizer


def around(tokenizer: Tokenizer, start: str, end: str = "") -> Tokenizer:
    pieces = [(token, tokenizer.token_to_id(token)) for token in (start, end) if token]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=" ".join(filter(None, [start, "$A", end])), special_tokens=pieces
    )
    return tokenizer


def shape(**extra) -> dict:
    return {
        "hidden_size": HIDDEN,
        "intermediate_size": 48,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "initializer_range": SPREAD,
        **extra,
    }


def save(folder: Path, model: PreTrainedModel, tokenizer: Tokenizer, special: dict[str, str]) -> Path:
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


def build_llama(folder: Path) -> Path:
    """Grouped-query attention, tied head, no start token, chat control tokens: like SmolLM2."""
    torch.manual_seed(1)
    tokenizer = byte_level(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    config = LlamaConfig(
        **shape(num_key_value_heads=2, vocab_size=tokenizer.get_vocab_size() + 12, tie_word_embeddings=True),
        max_position_embeddings=1024,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    special = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}
    special["unk_token"] = "<|endoftext|>"
    return save(folder, LlamaForCausalLM(config), tokenizer, special)


def build_mistral(folder: Path) -> Path:
    """A start token, an untied head, SentencePiece-style spaces and a sliding window shorter than the prompts."""
    torch.manual_seed(2)
    tokenizer = around(metaspace(["<unk>", "<s>", "</s>", "<pad>"]), "<s>")
    config = MistralConfig(
        **shape(num_key_value_heads=1, vocab_size=tokenizer.get_vocab_size(), num_hidden_layers=3),
        sliding_window=16,
        max_position_embeddings=1024,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=3,
    )
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    return save(folder, MistralForCausalLM(config), tokenizer, special)


def build_gpt2(folder: Path) -> Path:
    """Learned absolute positions: the only causal one here that notices when padding is counted."""
    torch.manual_seed(5)
    tokenizer = byte_level(["<|endoftext|>"])
    config = GPT2Config(
        n_embd=HIDDEN,
        n_layer=LAYERS,
        n_head=HEADS,
        n_positions=800,
        initializer_range=SPREAD,
        vocab_size=tokenizer.get_vocab_size(),
        bos_token_id=0,
        eos_token_id=0,
    )
    special = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
    return save(folder, GPT2LMHeadModel(config), tokenizer, special)


def build_qwen3(folder: Path) -> Path:
    """Heads wider than the states they read, norms on queries and keys, no start token: like Qwen3-0.6B."""
    torch.manual_seed(6)
    tokenizer = byte_level(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    config = Qwen3Config(
        **shape(num_key_value_heads=2, vocab_size=tokenizer.get_vocab_size() + 12, tie_word_embeddings=True),
        head_dim=16,
        max_position_embeddings=1024,
        bos_token_id=0,
        eos_token_id=2,
        pad_token_id=0,
    )
    return save(folder, Qwen3ForCausalLM(config), tokenizer, {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"})


def build_modernbert(folder: Path) -> Path:
    """Rotary positions, a window of eight tokens to each side in two layers of three, and a head in two parts."""
    torch.manual_seed(7)
    tokenizer = around(byte_level(["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]), "[CLS]", "[SEP]")
    config = ModernBertConfig(
        **shape(num_hidden_layers=3, vocab_size=tokenizer.get_vocab_size()),
        local_attention=16,
        max_position_embeddings=1024,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
        pad_token_id=3,
    )
    special = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    special["mask_token"] = "[MASK]"
    return save(folder, ModernBertForMaskedLM(config), tokenizer, special)


def build_roberta(folder: Path) -> Path:
    torch.manual_seed(3)
    tokenizer = around(byte_level(["<s>", "<pad>", "</s>", "<unk>", "<mask>"]), "<s>", "</s>")
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"}
    special |= {"unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>"}
    return save(folder, RobertaForMaskedLM(RobertaConfig(**roberta_shape(tokenizer))), tokenizer, special)


def roberta_shape(tokenizer: Tokenizer) -> dict:
    tokens = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    sizes = {"vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": 130, "type_vocab_size": 1}
    return shape(**sizes, **tokens)


def bert(folder: Path, head: Callable[[BertConfig], PreTrainedModel], seed: int, **settings) -> Path:
    torch.manual_seed(seed)
    tokenizer = around(word_pieces(list(BERT_TOKENS.values())), "[CLS]", "[SEP]")
    settings |= {"max_position_embeddings": 128, "pad_token_id": 0}
    config = BertConfig(**shape(vocab_size=tokenizer.get_vocab_size()), **settings)
    return save(folder, head(config), tokenizer, BERT_TOKENS)


def build_bert(folder: Path) -> Path:
    return bert(folder, BertForMaskedLM, seed=4)


def build_cross_encoder(folder: Path, labels: int = 1) -> Path:
    """The tiny BERT with a head that gives one number a pair, or several."""
    return bert(folder, BertForSequenceClassification, seed=8, num_labels=labels)


def modules(folder: Path, *parts: str, pooling: str, most: int, prompts: dict | None = None) -> Path:
    """Turn a saved model into a sentence-transformers folder; a part is Normalize, or Dense:IN:OUT."""
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
    return folder


def build_sentence_transformer(folder: Path) -> Path:
    """The tiny BERT under stock sentence-transformers modules: mean pooling, then normalising."""
    return modules(build_bert(folder), "Normalize", pooling="mean", most=64)


BUILDERS = {
    "llama": build_llama,
    "mistral": build_mistral,
    "gpt2": build_gpt2,
    "roberta": build_roberta,
    "bert": build_bert,
    "cross-encoder": build_cross_encoder,
    "sentence": build_sentence_transformer,
    "modernbert": build_modernbert,
    "qwen3": build_qwen3,
}


def flip_byte(path: Path, at: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def edit_json(path: Path, **changes) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
