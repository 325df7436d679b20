"""Tokenizers from model folders: straight from tokenizer.json, or made by transformers where there is none."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from retriever.core.errors import EncoderError
from retriever.encoders.tokenize import PieceTokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_LOCAL: Mapping[str, Any] = {"local_files_only": True, "trust_remote_code": False}

_TOKENIZER, _SETTINGS, _SPECIAL = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
_LISTS = ("extra_special_tokens", "additional_special_tokens")


def read_tokenizer(folder: Path) -> PieceTokenizer:
    """Read a model folder's tokenizer; errors as transformers' and tokenizers'.

    Raises:
        EncoderError: transformers makes one that is not of the tokenizers package.
    """
    if (folder / _TOKENIZER).exists():
        named, more = _special_tokens(folder)
        return PieceTokenizer(Tokenizer.from_file(str(folder / _TOKENIZER)), named, more)
    from transformers import PreTrainedTokenizerFast

    made = pretrained_tokenizer(folder)
    if not isinstance(made, PreTrainedTokenizerFast):
        raise EncoderError(f"{folder} has a {type(made).__name__}.", hint="Save it as tokenizer.json.")
    named = {name: str(token) for name, token in made.special_tokens_map.items()}
    return PieceTokenizer(made.backend_tokenizer, named, made.all_special_tokens)


def pretrained_tokenizer(folder: Path) -> "PreTrainedTokenizerBase":
    """Return a model folder's tokenizer as transformers has it."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if (folder / _TOKENIZER).exists():
        made: PreTrainedTokenizerBase = PreTrainedTokenizerFast.from_pretrained(folder, **_LOCAL)
        return made
    return AutoTokenizer.from_pretrained(folder, **_LOCAL)


def _special_tokens(folder: Path) -> tuple[dict[str, str], list[str]]:
    """Return a folder's special tokens: by role, such as ``eos_token``, and those without one."""
    settings = _stored(folder / _SETTINGS)
    if "added_tokens_decoder" not in settings:  # an older way to write what the settings say in new ones
        settings |= _stored(folder / _SPECIAL)
    named, more = {}, []
    for name, value in settings.items():
        if name in _LISTS and isinstance(value, list):
            more += [_content(token) for token in value]
        elif name in _LISTS and isinstance(value, dict):
            more += [_content(token) for token in value.values()]
        elif name.endswith("_token") and isinstance(value, str | dict):
            named[name] = _content(value)
    return named, more


def _content(token: str | Mapping[str, Any]) -> str:
    return token if isinstance(token, str) else str(token["content"])


def _stored(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}
