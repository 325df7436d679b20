"""Read the texts of `verdict_unlike.py` and `verdict_kinds.py` once under all their questions, and keep that.

    OMP_NUM_THREADS=1 python recipes/verdict_read.py DATA DATA2 CACHE --seconds 420

A file a source appears in CACHE; those that are there are not read again, so the command can be repeated.
"""

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from verdict_kinds import Source, sources
from verdict_unlike import unlike

from retriever import load_encoder
from retriever.core.protocols import Encoder
from retriever.core.similarity import normalise
from retriever.core.types import Encoded
from retriever.evaluation.grids import Question
from retriever.index.encoding import WORDS
from retriever.index.verdicts.reading import Evidence


@dataclass(frozen=True, slots=True)
class Read:
    """A source as it was read: what was heard by instruction."""

    source: Source
    heard: Mapping[str, Encoded]
    fingerprint: str

    def cosines(self, instruction: str) -> NDArray[np.float64]:
        """Return the cosines (n, n) of all texts under an instruction."""
        rows = self.heard[instruction].embeddings.astype(np.float64)
        return np.round(rows @ rows.T, 9)

    def evidence(self, question: str, count: int) -> Evidence:
        """Return what a verdict on a question looks at, on the first texts."""
        heard = self.heard[question]
        return Evidence(self.source.texts[:count], Encoded(heard.embeddings[:count], heard.words[:count]))


def read(encoder: Encoder, source: Source) -> dict[str, Any]:
    """Return vectors and words of a source's texts under everything asked of them, as arrays."""
    asked = ["", *(wording for question in source.questions for wording in question.wordings)]
    arrays: dict[str, Any] = {}
    words: dict[str, list[list[str]]] = {}
    for place, view in enumerate(encoder.encode_views(source.texts, asked, words=WORDS)):
        arrays[str(place)] = view.embeddings.astype(np.float16)
        words[asked[place]] = view.words
    meta = {
        "name": source.name,
        "texts": list(source.texts),
        "asked": asked,
        "words": words,
        "questions": [
            [question.kind, list(question.wordings), list(question.answers)] for question in source.questions
        ],
        "fingerprint": encoder.fingerprint,
    }
    return {**arrays, "meta": np.array(json.dumps(meta))}


def read_file(file: Path) -> Read:
    """Return what a file of the cache keeps."""
    with np.load(file, allow_pickle=False) as kept:
        meta = json.loads(str(kept["meta"]))
        heard = {
            instruction: Encoded(normalise(kept[str(place)]), meta["words"][instruction])
            for place, instruction in enumerate(meta["asked"])
        }
    questions = [Question(kind, wordings, answers) for kind, wordings, answers in meta["questions"]]
    return Read(Source(meta["name"], meta["texts"], questions), heard, meta["fingerprint"])


def main() -> None:
    """Parse the options and read what is not read yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("data2", type=Path)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--encoder", default="pretrained:default")
    parser.add_argument("--seconds", type=float, default=420, help="Begin no further source after so long.")
    parser.add_argument("--limit", type=int, default=80, help="Most texts of a source.")
    options = parser.parse_args()
    started = time.monotonic()
    options.cache.mkdir(exist_ok=True)
    encoder = load_encoder(options.encoder)
    folders = options.data, options.data2
    available = [*unlike(folders, options.limit), *sources(*folders, options.limit)]
    wanted = [source for source in available if not (options.cache / f"{source.name}.npz").exists()]
    for source in wanted:
        if time.monotonic() - started > options.seconds:
            print("Run it again: more is to be read.")
            return
        file = options.cache / f"{source.name}.npz"
        part = file.with_suffix(".part")
        with part.open("wb") as stream:
            np.savez_compressed(stream, **read(encoder, source))
        part.rename(file)
        print(source.name, len(source.texts), len(source.questions), flush=True)
    print("All is read.")


if __name__ == "__main__":
    main()
