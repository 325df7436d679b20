from answer_fakes import FakeReader, loads
from index_fakes import MOOD, FakeEncoder

from retriever.core.types import Document
from retriever.index.upkeep.export import export_parquet, import_parquet
from retriever.workspace import Index


def test_answers_stay_behind_by_name_in_parquet_and_the_index_made_of_it_is_whole(tmp_path, monkeypatch):
    reader = FakeReader(["love", "hate"])
    loads(monkeypatch, reader)
    encoders = {"encoder": FakeEncoder(), "plain": FakeEncoder("base")}
    with Index(tmp_path / "answered", **encoders) as index:
        index.add([Document("a", "love kettle"), Document("b", "hate kettle")])
        index.teaching.read_by(MOOD, reader.spec.name)
        index.teaching.read(MOOD)
        assert index.teaching.answers(MOOD) == {"a": "love", "b": "hate"}
    exported = export_parquet(tmp_path / "answered", tmp_path / "parquet")
    assert exported.manifest["left"] == [MOOD]
    import_parquet(tmp_path / "parquet", tmp_path / "again")
    with Index(tmp_path / "again", **encoders) as index:
        assert not index.upkeep.verify(deep=True).findings
        assert [hit.document.id for hit in index.search("love kettle", k=1).hits] == ["a"]
