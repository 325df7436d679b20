from index_fakes import FakeEncoder

from retriever.core.types import Document
from retriever.workspace import Index


class AsciiEncoder(FakeEncoder):
    """Knows nothing of a text without an ASCII letter."""

    def knows(self, texts):
        return [any(one.isascii() and one.isalpha() for one in text) for text in texts]


def test_texts_of_which_the_encoder_knows_nothing_are_told_once(tmp_path):
    rows = [Document(str(row), f"👍{'👎' * row}") for row in range(7)] + [Document("known", "a toy 👍")]
    with Index(tmp_path / "index", encoder=AsciiEncoder()) as index:
        assert index.add(rows).notes == [
            "7 texts hold nothing that the encoder knows and can be found by the same characters alone: "
            "0, 1, 2, 3, 4 and 2 more."
        ]
        assert index.add(rows).notes == []
        assert index.add([Document("7", "🎁")]).notes[0].startswith("1 text holds nothing that the encoder knows")
