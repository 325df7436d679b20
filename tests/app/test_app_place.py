import pytest

from retriever.core.errors import IndexNotFoundError, UsageError
from retriever_app.place import Place, read_place


def test_a_folder_shows_its_indexes(indexes, make):
    assert read_place().names() == []
    make("tickets")
    make("reviews")
    (indexes / "no index").mkdir()
    assert read_place() == Place(indexes)
    assert read_place().names() == ["reviews", "tickets"]
    assert read_place().find("tickets") == indexes / "tickets"


def test_drafts_are_no_indexes(indexes, make):
    make("reviews").rename(indexes / ".reviews-x2b")
    make("tickets").rename(indexes / ".export-7f")
    assert read_place().names() == []
    with pytest.raises(IndexNotFoundError):
        read_place().find(".export-7f")
    assert Place(indexes, ".export-7f").names() == [".export-7f"]


def test_one_index_is_shown_alone(indexes, make, monkeypatch):
    make("tickets")
    monkeypatch.setenv("RETRIEVER_APP_INDEX", str(make("reviews")))
    place = read_place()
    assert place.names() == ["reviews"]
    assert place.new("reviews") == indexes / "reviews"
    with pytest.raises(UsageError, match="for the index 'reviews' alone"):
        place.new("others")
    with pytest.raises(IndexNotFoundError):
        place.find("tickets")


@pytest.mark.parametrize("name", ["", " ", "..", "../x", "a/b", "a\\b", ".hidden", "x" * 65, "a.", "a\0b"])
def test_names_that_lead_elsewhere_are_refused(tmp_path, name):
    with pytest.raises(UsageError, match="cannot be the name of an index"):
        Place(tmp_path).new(name)


def test_what_is_not_there_is_not_found(tmp_path):
    with pytest.raises(IndexNotFoundError, match="There is no index"):
        Place(tmp_path).find("../x")
