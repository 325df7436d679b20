"""Text to token ids: pieces tokenised apart and joined, the text truncated and never the instruction."""

import copy
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from tokenizers import AddedToken, Tokenizer

from retriever.core.errors import EncoderError, UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


MAX_TEXT_TOKENS = 512
MAX_INSTRUCTION_TOKENS = 256


class PieceTokenizer:
    """Tokenises the pieces of a prompt one by one, the same way on every path.

    Control tokens spelled out in a text (``<|im_end|>`` in a review, say) stay plain characters.

    Args:
        tokenizer: of the tokenizers package; it is set up for pieces and must serve nothing else.
        named: its special tokens by role, such as ``eos_token``.
        more: special tokens without a role.
    """

    def __init__(self, tokenizer: Tokenizer, named: Mapping[str, str], more: Iterable[str] = ()) -> None:
        special = [*named.values(), *more]
        known = {token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special}
        new = [AddedToken(token, normalized=False, special=True) for token in special if token not in known]
        tokenizer.add_special_tokens(new)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True  # spelled out they are characters like any others
        self.tokenizer = tokenizer
        self.max_text_tokens = MAX_TEXT_TOKENS
        ids = {token: cast("int", tokenizer.token_to_id(token)) for token in special}
        self._named = {name: ids[token] for name, token in named.items()}
        self.special_ids = frozenset(ids.values())
        around, bare = tokenizer.encode("x").ids, self.piece("x")
        split = next((i for i in range(len(around)) if around[i : i + len(bare)] == bare), 0)
        self.start = around[:split]  # e.g. <s> or [CLS]; empty for SmolLM2
        self.end = around[split + len(bare) :]  # e.g. [SEP]; used by masked models only

    @property
    def mask_id(self) -> int:
        """Id of the mask token of a masked language model."""
        return self._named["mask_token"]

    @property
    def stop_id(self) -> int | None:
        """Id of the token that ends a text, or None where there is none."""
        return self._named.get("eos_token")

    def limited(self, max_text_tokens: int) -> Self:
        """Return the same tokenizer with another limit to the length of texts."""
        other = copy.copy(self)
        other.max_text_tokens = max_text_tokens
        return other

    def vocabulary(self) -> list[str]:
        """Return every token as the vocabulary writes it, by id; an id of none is empty."""
        size = self.tokenizer.get_vocab_size(with_added_tokens=True)
        return [self.tokenizer.id_to_token(token) or "" for token in range(size)]

    def piece(self, text: str) -> list[int]:
        """Return the ids of one piece, without start or end tokens."""
        return self._pieces([text])[0] if text else []

    def instruction(self, instruction: str, piece: str) -> list[int]:
        """Return the ids of a template piece that holds the instruction.

        Raises:
            UsageError: the instruction is longer than 256 tokens.
        """
        length = len(self.piece(instruction))
        if length > MAX_INSTRUCTION_TOKENS:
            raise UsageError(
                f"The instruction has {length} tokens; at most {MAX_INSTRUCTION_TOKENS} are allowed.",
                hint="Say it in a sentence or two.",
            )
        return self.piece(piece)

    def texts(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of every text, cut to the limit."""
        return [row[: self.max_text_tokens] for row in self._pieces(texts)] if texts else []

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, uncut."""
        return [len(row) for row in self._pieces(texts)] if texts else []

    def last_token(self, piece: str) -> tuple[int, int]:
        """Return the id of a piece's last token, and where its characters begin."""
        encoded = self.tokenizer.encode(piece, add_special_tokens=False)
        return encoded.ids[-1], encoded.offsets[-1][0]

    def _pieces(self, texts: Sequence[str]) -> list[list[int]]:
        encoded = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [row.ids for row in encoded]


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


def token_budget(device: str, *, reads_on: bool, shares: bool = False) -> int:
    """Choose the maximum number of padded tokens in a batch.

    ``reads_on`` says whether tokens are read one by one behind the prompts, which wants many rows at a time, ``shares``
    whether short blocks are read behind the texts, one for every instruction.
    """
    if device == "cuda":
        return 65_536
    return 16_384 if reads_on else 4096 if shares else 1536


def plan_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield positions of texts of similar length, longest first, each batch within the budget.

    A batch's rows times its longest row stay within the budget; a longer single text travels alone.
    """
    order = sorted(range(len(lengths)), key=lambda position: (-lengths[position], position))
    start = 0
    while start < len(order):
        rows = max(1, budget // max(1, lengths[order[start]]))
        yield order[start : start + rows]
        start += rows


def distinct(texts: Iterable[str]) -> tuple[list[str], list[int]]:
    """Return the distinct texts in order of appearance, and for every text its position among them."""
    seen: dict[str, int] = {}
    positions = [seen.setdefault(text, len(seen)) for text in texts]
    return list(seen), positions
