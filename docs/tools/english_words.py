"""Writes the list of retriever/core/english_words.txt.gz: the words by which a token that only begins a word is known.

    python docs/tools/english_words.py SCOWL_FOLDER FREQUENCIES.txt [ENCODER] | gzip -9n > english_words.txt.gz

SCOWL_FOLDER holds the lists of SCOWL (/usr/share/dict/scowl of Debian's package scowl), of which the words of size 50,
the names and the abbreviations in capitals are taken; FREQUENCIES the words of symspellpy with how often books have
them. Three kinds are left out, since an answer that reads so is the beginning of a longer word: what is rare beside a
word that it begins (`thous`, `beaut`), an abbreviation in lower case that nobody puts in the plural (`approx`, `obs`;
but `apps`), and a word whose token begins other words more often in books, or in the answers that ENCODER (`default`)
learned, than it is one (`pat`, which begins "patio"; `bra`). The list that ships is of encoder 9340485c1f5e.
"""

import re
import sys
from collections import Counter
from pathlib import Path

from retriever import load_encoder
from retriever.core.words import stem

WORD = re.compile(r"[a-z]{3,}")
LISTS = re.compile(r"(?:english|american|british)-(words|upper|proper-names|abbreviations)\.(\d+)")
RARE = 100  # times that the longer word is more frequent
LEARNED = {"annoy", "aston", "pat", "zen"}
"""Tokens by which learned answers begin (annoyance, astonished, patio), or names of single products (Creative Zen)."""


def listed(folder, kinds, largest):
    """Return the lines of SCOWL's lists of some kinds up to a size."""
    lists = [(path, match) for path in folder.iterdir() if (match := LISTS.fullmatch(path.name))]
    chosen = [path for path, match in lists if match[1] in kinds and int(match[2]) <= largest]
    return {line for path in chosen for line in path.read_text(encoding="latin-1").split()}


def english_words(folder, counts):
    """Return the words of SCOWL and of the counted ones that are answers, in ascending order."""
    shortened = listed(folder, {"abbreviations"}, 95)
    capitals = {line for line in shortened if line.isupper()} & listed(folder, {"abbreviations"}, 60)
    words = {line.lower() for line in listed(folder, {"words", "upper", "proper-names"}, 50) | capitals}
    wider = {line.lower() for line in listed(folder, {"words"}, 70)}
    both = words | set(counts)
    abbreviations = {line for line in shortened - words - wider if f"{line}s" not in both}
    most = Counter()
    for word, count in counts.items():
        for length in range(3, len(word)):
            most[word[:length]] = max(most[word[:length]], count)
    rare = {word for word, count in counts.items() if count * RARE < most[word]}
    return sorted(word for word in both - abbreviations - rare if WORD.fullmatch(word))


def begun(words, counts, tokenizer):
    """Return those of some words whose token begins other words more often than it is one."""
    listed, longer, vocabulary = set(words), Counter(), tokenizer.vocabulary()
    for word, count in counts.items():
        first, *more = tokenizer.piece(f" {word}")
        token = vocabulary[first].lstrip("\u0120")
        if more and stem(token) != stem(word):
            longer[token] += count
    often = {word for word, count in longer.items() if 0 < counts.get(word, 0) < count}
    return listed & (often | LEARNED)


def main():
    folder, frequencies, *encoder = sys.argv[1:]
    rows = (line.split() for line in Path(frequencies).read_text(encoding="utf-8-sig").splitlines())
    counts = {word: int(count) for word, count in rows}
    words = english_words(Path(folder), counts)
    left_out = begun(words, counts, load_encoder(encoder[0] if encoder else "default").backbone.tokenizer)
    sys.stdout.writelines(f"{word}\n" for word in words if word not in left_out)


if __name__ == "__main__":
    main()
