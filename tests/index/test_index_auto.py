"""`auto` where the words of a query lead astray and its meaning does not."""

import pytest
from index_fakes import DIM, PRODUCT, FakeEncoder

from retriever.core.types import Document

MEANINGS = {
    "child": {"boy", "son", "daughter"},
    "love": {"adores", "loves", "cherishes"},
    "device": {"gadget", "phone", "camera"},
    "broken": {"perished", "died", "failed", "collapsed"},
    "build": {"build", "made", "assembled"},
    "film": {"picture", "movie", "cinema"},
    "war": {"warfare", "battle", "soldiers"},
}
CASES = {
    "my little boy adores it": ("my son loves {}", "a little too {}", "my daughter asked for {}"),
    "the gadget perished quickly": ("this phone died after {}", "arrived quickly in {}", "a camera for {}"),
    "poor build collapsed": ("badly made and failed in {}", "poor value for {}", "assembled within {}"),
    "motion picture about warfare": ("a movie of soldiers and {}", "slow motion cable {}", "an evening of cinema {}"),
}
K = 10


class Understanding(FakeEncoder):
    """Sees which meanings a text has, whatever words it uses for them."""

    def _row(self, text, keywords):
        words = set(text.split())
        held = [bool(words & said) for said in MEANINGS.values()]
        return [0.25 if one else -0.25 for one in [*held, *[False] * (DIM - len(held))]]


@pytest.fixture
def encoder():
    return Understanding()


@pytest.mark.parametrize("query", CASES)
def test_auto_finds_what_is_said_in_other_words(index, query):
    right, astray, between = CASES[query]
    index.add(
        [
            *[Document(f"right {row}", right.format(f"day {row}")) for row in range(4)],
            *[Document(f"astray {row:02}", astray.format(f"day {row}")) for row in range(2 * K)],
            *[Document(f"between {row:03}", between.format(f"day {row}")) for row in range(120)],
        ]
    )
    wanted = {f"right {row}" for row in range(4)}

    def found(**options):
        return {hit.document.id for hit in index.search(query, k=K, **options).hits} & wanted

    assert (found(mode="lexical"), found(mode="dense")) == (set(), wanted)
    assert found() == wanted


def test_auto_searches_by_both_and_for_what_resembles_a_document_by_vectors(index):
    index.add([Document("a", "phone"), Document("b", "phone died"), Document("c", "movie")])
    assert index.search("phone", k=1).mode == index.search("nothing like it").mode == "hybrid"
    assert index.search("phone", k=1, instruction=PRODUCT).mode == "hybrid"
    assert index.search(like="a").mode == "dense"
