"""Writes retriever/core/fragments.txt: tokens of a vocabulary that look like words and only begin one.

    python docs/tools/word_fragments.py BPE_TOKENIZER.json WORDPIECE_TOKENIZER.json TEXTS.jsonl ... > fragments.txt

A token that begins a word (byte-level BPE, as SmolLM2's) does not say whether it ends it. It counts as a fragment where
a vocabulary that lists whole words and pieces apart (WordPiece, as BERT's) lacks it as a word, hardly any text has it
as a word, and something in either begins with it.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

_TOKEN = re.compile(r"[^\W\d_][\w'-]{2,}")
_WORD = re.compile(r"[a-z]{3,}")
_SPACE = "\u0120"
_LEAST = 3  # texts that a word is in


def fragments(tokens, words, texts):
    """Return the tokens that only begin a word, ascending."""
    begun = {
        plain.lower()
        for token in tokens
        if (plain := token.removeprefix(_SPACE)).isascii()
        and _TOKEN.fullmatch(plain)
        and (token.startswith(_SPACE) or plain[:1].isupper())
    }
    seen = Counter(word for text in texts for word in set(_WORD.findall(text.lower())))
    known = set(words) | {word for word, count in seen.items() if count >= _LEAST}
    beginnings = {word[:length] for word in known for length in range(3, len(word))}
    return sorted((begun & beginnings) - known)


def main():
    bpe, wordpiece, *texts = map(Path, sys.argv[1:])
    vocabularies = [json.loads(one.read_text(encoding="utf-8"))["model"]["vocab"] for one in (bpe, wordpiece)]
    lines = (json.loads(line)["text"] for one in texts for line in one.read_text(encoding="utf-8").splitlines())
    line = ""
    for word in fragments(*vocabularies, lines):
        if len(line) + len(word) + 1 > 120:
            sys.stdout.write(f"{line}\n")
            line = ""
        line = f"{line} {word}".strip()
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
