"""Writes retriever/core/english_words.txt: the words by which a token that only begins a word is known.

    python docs/tools/english_words.py SCOWL_FOLDER FREQUENCIES.txt > retriever/core/english_words.txt

SCOWL_FOLDER holds the lists of SCOWL (/usr/share/dict/scowl of Debian's package scowl), of which the words of size 50,
the names and the abbreviations in capitals are taken; FREQUENCIES the words of symspellpy with how often books have
them. Two kinds are left out, since an answer that reads so is the beginning of a longer word: what is rare beside a
word that it begins (`thous`, `beaut`), and an abbreviation in lower case that nobody puts in the plural (`approx`,
`obs`; but `apps`).
"""

import re
import sys
from collections import Counter
from pathlib import Path

WORD = re.compile(r"[a-z]{3,}")
LISTS = re.compile(r"(?:english|american|british)-(words|upper|proper-names|abbreviations)\.(\d+)")
RARE = 100  # times that the longer word is more frequent


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


def main():
    folder, frequencies = map(Path, sys.argv[1:])
    rows = (line.split() for line in frequencies.read_text(encoding="utf-8-sig").splitlines())
    counts = {word: int(count) for word, count in rows}
    sys.stdout.writelines(f"{word}\n" for word in english_words(folder, counts))


if __name__ == "__main__":
    main()
