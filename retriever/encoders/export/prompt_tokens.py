"""A prompt as a chat template over a tokenizer: how a program that knows no pieces still tokenises them apart.

Two things make the rendered prompt come out as the token ids that `PieceTokenizer` joins:

- A seam mark stands between the pieces. The exported tokenizer splits there before anything else and drops the mark.
- Tokens that pooling must tell from all others are vocabulary entries of their own: start tokens, the last prompt
  token, and what stands behind the prompt (look-ahead or mask tokens). Each has the embedding of what it stands for.
"""

import json
from dataclasses import dataclass
from typing import cast

import torch
from tokenizers import AddedToken, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from retriever.encoders.backbone import Backbone
from retriever.encoders.base import PromptEncoder
from retriever.encoders.prefix import prompt_pieces
from retriever.encoders.tokenizer_files import pretrained_tokenizer

MARK = "<|retriever-"
SEAM = f"{MARK}seam|>"
PLAIN_MARK = "<|retriever -"  # what the mark becomes where a text holds it


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
