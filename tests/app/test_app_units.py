import numpy as np
import pytest
from app_checks import finish, shown, whole
from app_fakes import KeywordEncoder

from retriever.clusters.groups import groups_of
from retriever.clusters.index_numbers import Counted
from retriever.clusters.numbers import count
from retriever.core.types import Document
from retriever.index.profiling import Columns
from retriever.workspace import Index
from retriever_app import cards
from retriever_app.pages.corpus import job as intake
from retriever_app.pages.groups import model as clusters

TWO_EACH = (
    "The kettle broke at once. I love this lamp very much.",
    "A toy that is fine. The kettle broke again.",
    "I hate this lamp so much. That toy broke too.",
)
TWO_EACH_CSV = "text,stars\n" + "".join(f"{text},{stars}\n" for stars, text in enumerate(TWO_EACH, start=1))


def dropped(app, *, sentences):
    session = app("corpus")
    session.file_uploader[0].set_value(("two.csv", TWO_EACH_CSV.encode(), "text/csv"))
    whole(session.run())
    if sentences:
        next(one for one in session.toggle if one.label == "Sentence by sentence").set_value(True)
        whole(session.run())
    whole(next(one for one in session.button if one.label.startswith("Index")).click().run())
    return finish(session, "two")


@pytest.mark.parametrize("sentences", [False, True])
def test_a_switch_makes_an_index_of_sentences(indexes, app, sentences):
    session = dropped(app, sentences=sentences)
    assert "3 reviews added" in shown(session)
    with Index(indexes / "two", encoder=KeywordEncoder()) as index:
        assert index.status().units == ("sentences" if sentences else "documents")
        assert index.status().unit_count == (6 if sentences else 3)
    session = app("search", q="love lamp", index="two")
    marked = "The kettle broke at once. <mark>I love this lamp very much.</mark>"
    assert any(marked in one.proto.body for one in session.get("html"))
    assert not any(one.label == "Sentence by sentence" for one in app("corpus", index="two").toggle)


def test_clusters_count_sentences_and_their_reviews(tmp_path):
    rows = [Document(str(row), text, {"stars": row}) for row, text in enumerate(TWO_EACH, start=1)]
    from retriever.index.indexing import IndexingOptions

    with Index(tmp_path / "index", encoder=KeywordEncoder()) as index:
        index.add(rows, options=IndexingOptions(units="sentences"))
        found = index.cluster("What product?", k=3)
    columns, everything = Columns(stars="stars"), np.ones(len(found.material.documents), dtype=bool)
    whole = groups_of(found).by_document()
    stars = clusters.read_sides(whole.documents, columns).stars
    counted = Counted(whole, count(whole, stars), stars)
    sides = clusters.read_sides(found.material.documents, columns)
    shown_cards = clusters.cards(found, sides, counted, everything, np.zeros(len(everything), np.float32))
    assert {card.group.label: card.size for card in shown_cards} == {
        "kettle": "2 sentences of 2 reviews · 2 of 3 · 1.5 ★",
        "lamp": "2 sentences of 2 reviews · 2 of 3 · 2.0 ★",
        "toy": "2 sentences of 2 reviews · 2 of 3 · 2.5 ★",
    }
    assert clusters.headline(found) == "6 sentences of 3 reviews in 3 groups."
    assert cards.hit_cards([], Columns(), {}) == []


def test_a_plan_is_gone_on_with_as_it_was_chosen(tmp_path):
    kept = intake.keep(tmp_path, "a.csv", TWO_EACH_CSV.encode())
    intake.note(intake.Plan(kept, "a", intake.preview(kept).columns, sentences=True))
    assert intake.unfinished(tmp_path)[0][0].sentences
