"""A task that a tiny random model learns in seconds: which product, and which colour, a text is about."""

import itertools
import json
import random
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"
PRODUCTS, COLOURS = ("kettle", "knife", "lamp"), ("red", "blue")
REST = ("broke", "love it", "is heavy", "boils fast", "for the child", "is dull", "of the toy", "to hate", "and plug")
PRODUCT, COLOUR = "what kind of product", "what about red and blue"

FAST = """
[adapter]
rank = 4
alpha = 8
look_ahead = 1
[loop]
learning_rate = 0.02
epochs = 6
[batch]
texts = 8
[data]
held_out = 0.3
[objective]
compared = "daap"
views = []
"""


def rows(count=48):
    """Return rows of text, question and answer, two for each of the texts."""
    texts = list(itertools.product(COLOURS, PRODUCTS, REST))
    random.Random(3).shuffle(texts)
    return [
        {"text": f"the {colour} {product} {rest}", "question": question, "answer": answer}
        for colour, product, rest in texts[:count]
        for question, answer in ((PRODUCT, product), (COLOUR, colour))
    ]


def write(path, found):
    path.write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")
    return str(path)
