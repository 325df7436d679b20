import pytest

from retriever.core.errors import IndexNotFoundError, UsageError
from retriever.serving.index_pool import IndexFolder, index_folder


def test_a_folder_has_its_indexes(indexes, make):
    assert index_folder(indexes).names() == []
    make("tickets")
    make("reviews")
    (indexes / "no index").mkdir()
    assert index_folder(indexes) == IndexFolder(indexes)
    assert index_folder(indexes).names() == ["reviews", "tickets"]
    assert index_folder(indexes).find("tickets") == indexes / "tickets"


def test_drafts_are_no_indexes(indexes, make):
    make("reviews").rename(indexes / ".reviews-x2b")
    make("tickets").rename(indexes / ".export-7f")
    assert IndexFolder(indexes).names() == []
    with pytest.raises(IndexNotFoundError):
        IndexFolder(indexes).find(".export-7f")
    assert IndexFolder(indexes, ".export-7f").names() == [".export-7f"]


def test_one_index_is_served_alone(indexes, make):
    make("tickets")
    folder = index_folder(make("reviews"))
    assert folder.names() == ["reviews"]
    assert folder.new("reviews") == indexes / "reviews"
    with pytest.raises(UsageError, match="Only the index 'reviews' is served"):
        folder.new("others")
    with pytest.raises(IndexNotFoundError):
        folder.find("tickets")


@pytest.mark.parametrize("name", ["", " ", "..", "../x", "a/b", "a\\b", ".hidden", "x" * 65, "a.", "a\0b"])
def test_names_that_lead_elsewhere_are_refused(tmp_path, name):
    with pytest.raises(UsageError, match="cannot be the name of an index"):
        IndexFolder(tmp_path).new(name)


def test_what_is_not_there_is_not_found(tmp_path):
    with pytest.raises(IndexNotFoundError, match="There is no index"):
        IndexFolder(tmp_path).find("../x")
