import sys
import time

import numpy as np
from cluster_reviews import figures, half_filled
from index_fakes import add_to_base
from index_reviews import run_until

from retriever.core.encoder import Encoder, EncoderSpec
from retriever.core.types import Document, Encoded
from retriever.workspace import Index

WAIT = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"


class Blind(Encoder):
    """Sees no difference between texts."""

    spec = EncoderSpec("blind".ljust(64, "0"), 2)

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        rows = np.tile(np.array([[1.0, 0.0]], dtype=np.float32), (len(texts), 1))
        return [Encoded(rows, [[] for _ in texts]) for _ in instructions]


def test_a_command_is_killed_when_it_is_far_enough_and_else_its_json_is_read(tmp_path):
    mark = tmp_path / "mark"
    started = time.monotonic()
    killed = run_until([sys.executable, "-c", WAIT, str(mark)], tmp_path, mark.exists)
    assert time.monotonic() - started < 300
    assert (killed["exit"], killed["report"]) == (-9, None)
    ended = run_until([sys.executable, "-c", "print(list(range(100_000)))"], tmp_path)  # more than a pipe holds
    assert (ended["exit"], ended["report"]) == (0, list(range(100_000)))


def test_a_view_is_half_filled_when_half_of_the_texts_have_a_vector(tmp_path):
    assert not half_filled(tmp_path / "index", "What broke?")
    with Index(tmp_path / "index", encoder=Blind()) as index:
        index.add([Document("a", "one"), Document("b", "two")], instructions=["What broke?"])
        add_to_base(index, [Document("c", "three"), Document("d", "four")])
        assert half_filled(index.path, "What broke?")
        assert not half_filled(index.path, "Who wrote it?")
        add_to_base(index, [Document("e", "five")])
        assert not half_filled(index.path, "What broke?")


def test_ratios_are_to_the_first_question_from_nothing():
    names = ("index", "first", "first_again", "second", "killed", "resumed", "four_at_once")
    seconds = (60.0, 40.0, 5.0, 40.0, 25.0, 35.0, 180.0)
    found = figures(
        {name: {"exit": 0, "seconds": taken, "peak_rss_mib": taken} for name, taken in zip(names, seconds, strict=True)}
    )
    assert found["ratios_to_first_from_nothing"] == {"first_again": 0.05, "second": 0.4, "four_at_once": 1.8}
    assert found["seconds"]["first_from_nothing"] == 100
    assert found["killed_and_resumed_by_second"] == 1.5
    assert found["peak_rss_mib"] == 180
