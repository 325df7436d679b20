import numpy as np
from unmet_questions import TRAINED, UNMET, Kind, _usable, drawn, means, measured

from retriever.core.encoder import Encoder, EncoderSpec
from retriever.core.types import Encoded


class SeesWhatIsAsked(Encoder):
    """Puts a text at its own first letter where it is asked for one, and everything at one place otherwise."""

    spec = EncoderSpec("sees", 2)

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        letters = np.array([[float(text[0] == letter) for letter in "ab"] for text in texts])
        nothing = np.ones((len(texts), 2)) / np.sqrt(2)
        return [Encoded(letters if "letter" in one else nothing, []) for one in instructions]


def test_a_kind_of_very_many_labels_keeps_pairs_of_texts():
    labels = {f"{copy} of {label}": str(label) for copy in range(3) for label in range(90)}
    (kind,) = _usable(Kind("number", False, {}, labels), 100, seed=0)
    assert len(kind.labels) == 100
    triplets = drawn(np.array(list(kind.labels.values())), seed=0)
    assert triplets.shape == (100, 5, 3)
    values = np.array(list(kind.labels.values()))[triplets]
    assert (values[..., 0] == values[..., 1]).all() and (values[..., 0] != values[..., 2]).all()


def test_kinds_of_too_few_texts_or_one_label_are_left_out():
    few = {f"{row}": str(row % 2) for row in range(30)}
    one = {f"{row}": "same" for row in range(90)}
    assert not [*_usable(Kind("few", False, {}, few), 100, 0), *_usable(Kind("one", False, {}, one), 100, 0)]


def test_triplets_come_right_where_the_wording_is_followed():
    kind = Kind(
        "letter",
        False,
        {TRAINED: ["which letter?"], UNMET: ["say"]},
        {f"{'ab'[n % 2]}{n}": "ab"[n % 2] for n in range(40)},
    )
    found = measured(SeesWhatIsAsked(), kind, seed=0)
    assert (found[TRAINED][0], found[UNMET][0], found["texts"], found["labels"]) == (
        100.0,
        0.0,
        40,
        2,
    )  # ties are wrong
    assert means([found]) == {"trained kinds": {"no question": 0.0, TRAINED: 100.0, UNMET: 0.0}}
