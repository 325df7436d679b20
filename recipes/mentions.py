"""Rows that ask whether a text mentions a thing, with the thing in the question: thousands of kinds, seen by code.

    python recipes/mentions.py OUT TEXTS.jsonl [TEXTS.jsonl ...] --blocks 100 --seed 0

Texts come in blocks. Of each block some words are asked for, each in between a quarter and three quarters of its
texts, so that which texts belong together changes from word to word. Words whose hash ends in ``HELD_OUT`` are never
asked for; they are left to measure with.
"""

import argparse
import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from mixture import write_rows
from text_words import lower

from retriever.training.rows import normalise_text

BLOCK = 16
WORDS = 6
LEAST_LETTERS = 4
HELD_OUT = "0"
WORDINGS = (
    'Does it mention "{}"?',
    "Say whether the word {} occurs.",
    "{}: mentioned or not",
    "Is there anything about {} in it, by that name?",
    "Tell texts that name {} from those that do not.",
    "does the writer bring up {}?",
    "I only care whether {} comes up.",
    "Presence of the word {}",
)


def held_out(word: str) -> bool:
    """Return whether a word is kept to measure with: one in sixteen."""
    return hashlib.sha256(word.encode()).hexdigest().endswith(HELD_OUT)


def blocks(texts: Sequence[str], count: int, draw: random.Random) -> Iterator[dict[str, str]]:
    """Yield rows of text, question, answer and group for so many blocks, each around a word that is in few texts."""
    words = {text: frozenset(one for one in lower(text) if len(one) >= LEAST_LETTERS) for text in texts}
    among = Counter(word for one in words.values() for word in one)
    few = sorted(word for word, times in among.items() if BLOCK <= times <= len(texts) // 8 and not held_out(word))
    for word in draw.sample(few, min(count, len(few))):
        with_it = draw.sample([text for text in texts if word in words[text]], BLOCK // 2)
        without = draw.sample([text for text in texts if word not in words[text]], BLOCK - len(with_it))
        block = [*with_it, *without]
        dividing = Counter(one for text in block for one in words[text])
        shared = sorted(one for one, times in dividing.items() if BLOCK // 4 <= times <= BLOCK * 3 // 4)
        beside = [one for one in shared if one != word and not held_out(one)]
        for asked in [word, *draw.sample(beside, min(WORDS - 1, len(beside)))]:
            for text in block:
                answer = "yes" if asked in words[text] else "no"
                question = draw.choice(WORDINGS).format(asked)
                yield {"text": text, "question": question, "answer": answer, "group": f"mentions {asked}"}


def main() -> None:
    """Parse the options and write one file of rows a file of texts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument(
        "texts", type=Path, nargs="+", help="JSON Lines files of rows with a text, such as mixture.py's"
    )
    parser.add_argument("--blocks", type=int, default=100, help="of each file")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for file in options.texts:
        with file.open(encoding="utf-8") as lines:
            texts = {normalise_text(text): text for text in (json.loads(line)["text"] for line in lines)}
        made = list(blocks(sorted(texts.values()), options.blocks, random.Random(f"{options.seed}:{file.stem}")))
        target = options.output / f"mentions-{file.stem}.jsonl"
        write_rows(target, made, len({row["text"] for row in made}), len(texts))


if __name__ == "__main__":
    main()
