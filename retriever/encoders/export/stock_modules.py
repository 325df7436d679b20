"""An encoder as a sentence-transformers folder of stock modules: no remote code, no package but theirs.

Transformer reads the prompt, which its chat template renders; WordWeights gives each vocabulary entry its share in
the vector; Pooling takes the weighted mean; Normalize scales it to length 1. Poolings of hidden states are weighted
means over positions, and every position that counts apart is a vocabulary entry of its own (see `prompt_tokens`), so
the vectors are the encoder's.
"""

import json
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from retriever.core.errors import EncoderError
from retriever.core.registry import resolve
from retriever.encoders.base import PromptEncoder
from retriever.encoders.export.probes import check_probes
from retriever.encoders.export.prompt_tokens import (
    MARK,
    PromptToken,
    PromptTokens,
    exported_tokenizer,
    extended_table,
    last_prompt_token,
    longest_prompt,
)
from retriever.encoders.instemb import InstEmbEncoder
from retriever.encoders.masked import MASK_TOKENS, MaskedInBedderEncoder, position_count
from retriever.encoders.pooling import LOOK_AHEAD_POOLINGS


def export_sentence_transformer(encoder: PromptEncoder, folder: Path) -> int:
    """Write an encoder as a sentence-transformers folder, and compare what it gives with the encoder.

    Args:
        encoder: in float32.
        folder: where to; empty or not there yet.

    Returns:
        The most tokens of a rendered prompt; longer texts are cut to fit.

    Raises:
        EncoderError: its pooling is no weighted mean of states read in one pass, its template is not text-first, or
            the written model gives other vectors.
    """
    tokens = _prompt_tokens(encoder)
    tokenizer = exported_tokenizer(encoder, tokens)
    most = min(longest_prompt(encoder, tokens), _positions(encoder))
    tokenizer.model_max_length = most
    _write_model(encoder, tokens, tokenizer, folder)
    _stock_model(encoder, tokens, folder).save(str(folder), create_model_card=False)
    loaded = _theirs("SentenceTransformer")(str(folder), device=str(encoder.backbone.device), local_files_only=True)
    check_probes(encoder, lambda texts, asked: loaded.encode(texts, prompt=asked or None, show_progress_bar=False))
    return most


def pooling_weights(encoder: PromptEncoder) -> tuple[list[float], float]:
    """Return the shares of the last prompt state and of each state behind it, and the share of every other state.

    Raises:
        EncoderError: the pooling reads generated tokens.
    """
    if isinstance(encoder, InstEmbEncoder):
        length = encoder.look_ahead or 0
        one_hot = torch.eye(1 + length)  # a pooling is linear: fed with unit vectors, it gives its weights
        return LOOK_AHEAD_POOLINGS[encoder.pooling](one_hot[:1], one_hot[1:].unsqueeze(0))[0].tolist(), 0.0
    if isinstance(encoder, MaskedInBedderEncoder):
        masks = [1.0] * MASK_TOKENS
        return ([0.0, *masks], 0.0) if encoder.pooling == "masks" else ([1.0, *(0.0 for _ in masks)], 1.0)
    known = {"1st-gen": ([1.0], 0.0), "last": ([1.0], 0.0), "avg-ppt": ([0.0], 1.0), "mean": ([1.0], 1.0)}
    if encoder.pooling not in known:
        raise EncoderError(
            f"{encoder.method} with {encoder.pooling} reads what it generates, which no stock module does.",
            hint=f"Of this method, {', '.join(name for name in encoder.poolings if name in known) or 'none'} can go.",
        )
    return known[encoder.pooling]


def _prompt_tokens(encoder: PromptEncoder) -> PromptTokens:
    if not encoder.template.text_first:
        raise EncoderError(
            f"The template {encoder.template.name} ends with the text, so no token marks where to pool.",
            hint="Only text-first templates are exported: input-first.",
        )
    backbone = encoder.backbone
    (last, *shares), _ = pooling_weights(encoder)
    last_id, _ = last_prompt_token(encoder)
    start = [
        PromptToken(f"{MARK}start-{i}|>", row, 0.0)
        for i, row in enumerate(backbone.embed_ids(backbone.tokenizer.start).detach())
    ]
    if isinstance(encoder, MaskedInBedderEncoder):
        after = [*[backbone.tokenizer.mask_id] * MASK_TOKENS, *backbone.tokenizer.end]
        rows = backbone.embed_ids(after).detach()
        shares += [0.0] * len(backbone.tokenizer.end)
    else:
        tail = encoder.tail(answers=False)
        rows = backbone.embed_ids([]).detach() if tail is None else tail.detach()
    behind = [
        PromptToken(f"{MARK}behind-{i}|>", row, share) for i, (row, share) in enumerate(zip(rows, shares, strict=True))
    ]
    marked = PromptToken(f"{MARK}last|>", backbone.embed_ids([last_id])[0].detach(), last)
    return PromptTokens(start, marked, behind)


def _positions(encoder: PromptEncoder) -> int:
    """Return how many tokens the model has positions for."""
    if encoder.backbone.masked:
        return position_count(encoder.backbone)
    return int(getattr(encoder.backbone.model.config, "max_position_embeddings", 1 << 30))


def _write_model(
    encoder: PromptEncoder, tokens: PromptTokens, tokenizer: PreTrainedTokenizerBase, folder: Path
) -> None:
    """Write the headless model with the added tokens' embeddings, and the tokenizer."""
    base = encoder.backbone.model.base_model
    table = extended_table(encoder.backbone, tokenizer, tokens)
    own = base.get_input_embeddings().weight
    name = next(name for name, parameter in base.named_parameters() if parameter is own)
    base.save_pretrained(folder, state_dict={**base.state_dict(), name: table})
    tokenizer.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config["vocab_size"] = table.shape[0]
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def _stock_model(encoder: PromptEncoder, tokens: PromptTokens, folder: Path) -> Any:  # noqa: ANN401 - theirs
    """Return the SentenceTransformer over the written model."""
    output = {"method": "forward", "method_output_name": "last_hidden_state"}
    reader = _theirs("Transformer")(
        str(folder),
        modality_config={"text": output, "message": {**output, "format": "flat"}},
        module_output_name="token_embeddings",
        processing_kwargs={"text": {"split_special_tokens": True}},
    )
    _, others = pooling_weights(encoder)
    size = reader.model.get_input_embeddings().weight.shape[0]
    by_id = {index: token for token, index in reader.tokenizer.get_vocab().items()}
    vocabulary = [by_id.get(index, f"{MARK}unused-{index}|>") for index in range(size)]
    weights = _theirs("WordWeights")(vocabulary, {token.name: token.weight for token in tokens.all}, others)
    return _theirs("SentenceTransformer")(
        modules=[reader, weights, _theirs("Pooling")(encoder.dim, "mean"), _theirs("Normalize")()],
        device=str(encoder.backbone.device),
        similarity_fn_name="cosine",
    )


def _theirs(name: str) -> Any:  # noqa: ANN401 - a class of theirs
    """Return a class of sentence-transformers.

    Raises:
        RetrieverError: it is not installed.
    """
    module = "sentence_transformers"
    if name != "SentenceTransformer":
        module += ".sentence_transformer.modules"
    return resolve(f"{module}:{name}", package="sentence-transformers")
