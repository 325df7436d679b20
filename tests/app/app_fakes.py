"""An encoder a person can compute, reviews for it, and, run as a script, the whole app over it."""

import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import cli_fakes
from cli_fakes import KEYWORDS

from retriever.core.protocols import Tuning
from retriever.core.types import Document
from retriever.encoders import catalog

PRODUCT = "What kind of product is it?"
MOOD = "Which mood is it?"
REVIEWS = [
    {"id": "r1", "text": "The kettle broke.", "product": "Kettle", "category": "kitchen", "stars": 1},
    {"id": "r2", "text": "I love this kettle.", "product": "Kettle", "category": "kitchen", "stars": 5},
    {"id": "r3", "text": "I hate the lamp.", "product": "Lamp", "category": "light", "stars": 2},
    {"id": "r4", "text": "A lamp to love.", "product": "Lamp", "category": "light", "stars": 4},
    {"id": "r5", "text": "The toy broke.", "product": "Toy", "category": "toys", "stars": 1},
    {"id": "r6", "text": "A toy, nothing more.", "product": "Toy", "category": "toys", "stars": 3},
]
for day, review in enumerate(REVIEWS, start=1):
    review["date"] = f"2024-{day:02d}-10"
OWN_COLUMNS = "Review Text;ASIN;Rating;Review Date\n" + "".join(
    f"{review['text']} Again and again.;{review['product']};{review['stars']} out of 5;{review['date']}\n"
    for review in REVIEWS
)


class KeywordEncoder(cli_fakes.KeywordEncoder):
    """Counts keywords, as that of the command line's tests.

    Args:
        name: another one is another fingerprint.
        gate: reading documents sets ``reached``, and waits until the gate is set.
    """

    spec = replace(cli_fakes.KeywordEncoder.spec, max_text_tokens=512)

    def __init__(self, name="keywords", gate=None):
        super().__init__(name)
        self.gate = gate
        self.reached = threading.Event()

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        if words:
            self.reached.set()
            if self.gate:
                self.gate.wait(300)
        for count in self.count_tokens(texts) if on_tokens else ():
            on_tokens(count)
        return super().encode_views(texts, instructions, words=words)

    def count_tokens(self, texts):
        return [len(text.split()) for text in texts]


class TunableEncoder(KeywordEncoder):
    """Knows some of the keywords, and all the others instead once it is tuned, whatever by.

    Args:
        name: one of `TUNABLE`.
        known: the keywords.
    """

    def __init__(self, name, known):
        super().__init__(name)
        self.known = tuple(known)

    def answers(self, text, instruction):
        return [word for word in self.known if word in text.lower()]

    def tune(self, texts, labels, *, steps, on_step=None):
        for _ in range(steps):
            on_step()
        return Tuning(b"others", {"known": [word for word in KEYWORDS if word not in self.known]})

    def tuned(self, tuning):
        other = TunableEncoder(self.spec.name, tuning.description["known"])
        other.spec = replace(other.spec, name="", fingerprint=tuning.fingerprint(self.fingerprint))
        return other


TUNABLE = {"learns all": (), "forgets all": KEYWORDS}
"""The keywords that a base encoder of that name knows before it is tuned."""


def load_encoder(name="default", *, device="auto", **options):
    if name in TUNABLE:
        return TunableEncoder(name, TUNABLE[name])
    return KeywordEncoder("keywords" if name == "default" else name)


def documents(rows):
    fields = [{key: value for key, value in row.items() if key not in ("id", "text")} for row in rows]
    return [Document(row["id"], row["text"], metadata) for row, metadata in zip(rows, fields, strict=True)]


if __name__ == "__main__":
    from retriever.cli.main import run
    from retriever.encoders.catalog import write_promotion
    from retriever_app import serving
    from retriever_app.training import job as trainings

    catalog.load_encoder = load_encoder
    serving.UPLOAD_MB = int(os.environ.get("APP_FAKES_UPLOAD_MB", serving.UPLOAD_MB))
    trainings.COMMAND = (sys.executable, str(Path(__file__).with_name("train_process.py")))
    models = ModuleType("retriever.index.models")
    models.promote = write_promotion  # without loading it: what the stand-in trains holds no weights
    sys.modules[models.__name__] = models  # in place of the real one, which takes torch and its seconds to import
    sys.argv[0] = "retriever"
    run()
