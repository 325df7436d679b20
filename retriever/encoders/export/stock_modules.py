"""An encoder as a sentence-transformers folder of stock modules: no remote code, no package but theirs.

Transformer reads the prompt, which its chat template renders; WordWeights gives each vocabulary entry its share in
the vector; Pooling takes the weighted mean; Normalize scales it to length 1. Poolings of hidden states are weighted
means over positions, and every position that counts apart is a vocabulary entry of its own, so the vectors are the
encoder's. Two things make the rendered prompt come out as the token ids that `PieceTokenizer` joins:

- A seam mark stands between the pieces. The exported tokenizer splits there before anything else and drops the mark.
- Tokens that pooling must tell from all others are vocabulary entries of their own: start tokens, the last prompt
  token, and what stands behind the prompt (look-ahead or mask tokens). Each has the embedding of what it stands for.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from tokenizers import AddedToken, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from retriever.core.errors import EncoderError
from retriever.core.registry import resolve
from retriever.encoders.backbone import Backbone
from retriever.encoders.base import PromptEncoder
from retriever.encoders.export import Written, card_facts, check_probes
from retriever.encoders.reading import prompt_pieces
from retriever.encoders.readout import Shares
from retriever.encoders.tokenize import pretrained_tokenizer

MARK = "<|retriever-"
SEAM = f"{MARK}seam|>"
PLAIN_MARK = "<|retriever -"  # what the mark becomes where a text holds it

_CARD = """# {name}, for sentence-transformers

Made from {spec} by `retriever models export`. Merged float32 weights and stock modules: sentence-transformers 6.2 or
newer loads this folder without remote code.

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("PATH/OF/THIS/FOLDER")
vectors = model.encode(["The kettle broke."], prompt="What kind of product is this about?")
```

The prompt is the instruction; the chat template puts it behind the text. Without one the model reads every text under
its default instruction: {instruction}

The vectors are those of `retriever.load_encoder` in float32, with {pooling} pooling{look_ahead}; this was checked to
1e-3 when the folder was made.

## Limits

- Text and instruction together have {most} tokens. What is longer loses the end of the text, never the instruction.
  Texts of up to {text} tokens are whole under the default instruction; a longer instruction leaves less room.
- Set no `max_seq_length` below the length of an instruction.
- A `prompt` is an instruction, not a prefix. `{mark}` in a text is read as `{plain}`.
- No words: the model's answers in words need retriever.
"""


@dataclass(frozen=True, slots=True)
class PromptToken:
    """A vocabulary entry made for the export.

    Attributes:
        name: how it is written in the rendered prompt.
        embedding: its input embedding (d,).
        weight: its state's share in the pooled vector, before the shares are scaled to a sum of 1.
    """

    name: str
    embedding: Tensor
    weight: float


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """The vocabulary entries of an encoder's prompt, in the order in which a prompt holds them."""

    start: list[PromptToken]
    last: PromptToken
    tail: list[PromptToken]

    @property
    def all(self) -> list[PromptToken]:
        """All of them."""
        return [*self.start, self.last, *self.tail]


def write(encoder: PromptEncoder, folder: Path, name: str) -> Written:
    """Write an encoder as a sentence-transformers folder, and compare what it gives with the encoder.

    The encoder is one in float32, the folder, which gets the name, empty or not there yet.

    Raises:
        EncoderError: its pooling is no weighted mean of states read in one pass, its template is not text-first, or
            the written model gives other vectors.
    """
    tokens = _prompt_tokens(encoder)
    tokenizer = exported_tokenizer(encoder, tokens)
    most = tokenizer.model_max_length = min(longest_prompt(encoder, tokens), encoder.backbone.positions)
    _write_model(encoder, tokens, tokenizer, folder)
    _stock_model(encoder, tokens, folder).save(str(folder), create_model_card=False)
    loaded = _theirs("SentenceTransformer")(str(folder), device=str(encoder.backbone.device), local_files_only=True)
    check_probes(
        encoder, lambda texts, instruction: loaded.encode(texts, prompt=instruction or None, show_progress_bar=False)
    )
    look_ahead = f" over {encoder.look_ahead} look-ahead tokens" if encoder.look_ahead else ""
    shown = {"pooling": encoder.pooling, "look_ahead": look_ahead, "mark": MARK, "plain": PLAIN_MARK}
    return Written("sentence-transformers", _CARD.format(**card_facts(encoder, name), **shown, most=most))


def pooling_shares(encoder: PromptEncoder) -> Shares:
    """Return an encoder's pooling as weights of states.

    Raises:
        EncoderError: the pooling reads generated tokens.
    """
    shares = encoder.shares()
    if shares is None:
        can_go = [name for name in encoder.poolings if encoder.reconfigured(pooling=name).shares() is not None]
        raise EncoderError(
            f"{encoder.method} with {encoder.pooling} reads what it generates, which no stock module does.",
            hint=f"Of this method, {', '.join(can_go) or 'none'} can go.",
        )
    return shares


def _prompt_tokens(encoder: PromptEncoder) -> PromptTokens:
    if not encoder.template.text_first:
        raise EncoderError(
            f"The template {encoder.template.name} ends with the text, so no token marks where to pool.",
            hint="Only text-first templates are exported: input-first.",
        )
    backbone = encoder.backbone
    shares = pooling_shares(encoder)
    last_id, _ = last_prompt_token(encoder)
    start = [
        PromptToken(f"{MARK}start-{i}|>", row, 0.0)
        for i, row in enumerate(backbone.embed_ids(backbone.tokenizer.start).detach())
    ]
    behind = [
        PromptToken(f"{MARK}behind-{i}|>", row, shares.behind[i] if i < len(shares.behind) else 0.0)
        for i, row in enumerate(encoder.behind().detach())
    ]
    marked = PromptToken(f"{MARK}last|>", backbone.embed_ids([last_id])[0].detach(), shares.last)
    return PromptTokens(start, marked, behind)


def _write_model(
    encoder: PromptEncoder, tokens: PromptTokens, tokenizer: PreTrainedTokenizerBase, folder: Path
) -> None:
    """Write the headless model with the added tokens' embeddings, and the tokenizer."""
    base: Any = encoder.backbone.pretrained().base_model
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
    transformer = _theirs("Transformer")(
        str(folder),
        modality_config={"text": output, "message": {**output, "format": "flat"}},
        module_output_name="token_embeddings",
        processing_kwargs={"text": {"split_special_tokens": True}},
    )
    size = transformer.model.get_input_embeddings().weight.shape[0]
    by_id = {index: token for token, index in transformer.tokenizer.get_vocab().items()}
    vocabulary = [by_id.get(index, f"{MARK}unused-{index}|>") for index in range(size)]
    shares = {token.name: token.weight for token in tokens.all}
    weights = _theirs("WordWeights")(vocabulary, shares, pooling_shares(encoder).others)
    return _theirs("SentenceTransformer")(
        modules=[transformer, weights, _theirs("Pooling")(encoder.dim, "mean"), _theirs("Normalize")()],
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


def exported_tokenizer(encoder: PromptEncoder, tokens: PromptTokens) -> PreTrainedTokenizerBase:
    """Return the encoder's tokenizer, made anew, with the chat template, the seams and the added tokens.

    Padding is on the right: behind a causal model's prompt it changes nothing, whatever the positions are.
    """
    tokenizer = pretrained_tokenizer(encoder.backbone.source.folder)
    backend = cast("PreTrainedTokenizerFast", tokenizer).backend_tokenizer
    own = [backend.pre_tokenizer] if backend.pre_tokenizer is not None else []
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(SEAM, "removed"), *own])
    # Not special: control tokens spelled out in a text stay characters, and only these are looked for.
    added = [AddedToken(token.name, special=False, normalized=False) for token in tokens.all]
    tokenizer.add_tokens(added)
    tokenizer.chat_template = _chat_template(encoder, tokens)
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
    return tokenizer


def longest_prompt(encoder: PromptEncoder, tokens: PromptTokens) -> int:
    """Return the tokens of a prompt whose text is as long as allowed, under the default instruction."""
    tokenizer = encoder.backbone.tokenizer
    pieces = prompt_pieces(tokenizer, encoder.template, [encoder.options.default_instruction])
    return pieces.overhead + tokenizer.max_text_tokens + len(tokens.tail)


def extended_table(backbone: Backbone, tokenizer: PreTrainedTokenizerBase, tokens: PromptTokens) -> Tensor:
    """Return the embedding table (V', d) with a row for every added token."""
    table = backbone.embedding_table().detach()
    vocabulary = tokenizer.get_vocab()
    ids = [vocabulary[token.name] for token in tokens.all]
    rows = max(table.shape[0], max(ids) + 1)
    extended = torch.zeros(rows, table.shape[1], dtype=table.dtype, device=table.device)
    extended[: table.shape[0]] = table
    extended[ids] = torch.stack([token.embedding for token in tokens.all]).to(extended)
    return extended


def last_prompt_token(encoder: PromptEncoder) -> tuple[int, str]:
    """Return the id that every prompt ends with, and the template's last piece without that token's characters."""
    suffix = encoder.template.suffix(encoder.options.default_instruction)
    token, first = encoder.backbone.tokenizer.last_token(suffix)
    return token, encoder.template.after[: first - len(suffix)]


def _chat_template(encoder: PromptEncoder, tokens: PromptTokens) -> str:
    """Return a Jinja template: the user's message is the text, a system message the instruction."""
    _, after = last_prompt_token(encoder)
    before_instruction, after_instruction = after.split("{instruction}")
    start = "".join(token.name for token in tokens.start)
    end = "".join(token.name for token in [tokens.last, *tokens.tail])
    clean = f"replace({_quoted(MARK)}, {_quoted(PLAIN_MARK)})"
    pieces = [
        _quoted(start + encoder.template.before + SEAM),
        "ns.text",
        _quoted(SEAM + before_instruction),
        f"(ns.instruction or {_quoted(encoder.options.default_instruction)})",
        _quoted(after_instruction + end),
    ]
    return (
        '{%- set ns = namespace(text="", instruction="") -%}'
        "{%- for message in messages -%}"
        '{%- if message["role"] == "system" -%}'
        f'{{%- set ns.instruction = message["content"] | trim | {clean} -%}}'
        "{%- else -%}"
        f'{{%- set ns.text = message["content"] | {clean} -%}}'
        "{%- endif -%}"
        "{%- endfor -%}"
        f"{{{{ {' ~ '.join(pieces)} }}}}"
    )


def _quoted(text: str) -> str:
    """Return a text as a Jinja string."""
    return json.dumps(text, ensure_ascii=False)
