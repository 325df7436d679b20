import pytest
from index_fakes import DIM, FAULT, MOOD, PRODUCT, FakeEncoder, RichEncoder, add_to_base, documents, found

from retriever.core.errors import EncoderError, InputError, UsageError
from retriever.core.types import BadRow, Document, Encoded
from retriever.index import status as index_status
from retriever.index.indexing import IndexingOptions
from retriever.index.reembedding import reembed
from retriever.workspace import Index

SYNC = IndexingOptions(sync=True)
SMALL = IndexingOptions(batch=2)


def bad(line, id=None):
    return BadRow("reviews.jsonl", line, id, "no text", '{"text": ""}')


def counts(report):
    return report.added, report.updated, report.unchanged, report.deleted, report.skipped


def stored(index):
    return index._opened.store.documents.get(list(index._opened.store.documents.ids()))


def test_the_same_corpus_again_embeds_nothing(index, encoder):
    corpus = documents("kettle", "toy", "lamp", stars=3)
    assert counts(index.add(corpus)) == (3, 0, 0, 0, 0)
    assert encoder.read == [("kettle", ""), ("toy", ""), ("lamp", "")]
    report = index.add(corpus)
    assert counts(report) == (0, 0, 3, 0, 0)
    assert (len(encoder.read), report.embedded, report.read) == (3, {}, 3)


def test_only_new_and_changed_texts_are_embedded(index, encoder):
    index.add(documents("kettle", "toy", "lamp"))
    encoder.forget()
    report = index.add(documents("kettle", "a broken toy", "lamp", "knife"))
    assert counts(report) == (1, 1, 2, 0, 0)
    assert encoder.read == [("a broken toy", ""), ("knife", "")]
    assert report.embedded == {report.views[0]: 2}
    assert [hit.document.text for hit in index.search("toy", mode="dense", k=1).hits] == ["a broken toy"]


def test_changed_metadata_is_an_update_without_embedding(index, encoder):
    index.add(documents("kettle", "toy", stars=1))
    encoder.forget()
    assert counts(index.add(documents("kettle", "toy", stars=2))) == (0, 2, 0, 0, 0)
    assert encoder.calls == []
    assert [hit.document.metadata for hit in index.search("toy", mode="dense", k=2).hits] == [{"stars": 2}] * 2


def test_equal_texts_are_embedded_once(index, encoder):
    index.add(documents("toy", "toy", "lamp", "toy", "lamp"), options=SMALL)
    assert encoder.read == [("toy", ""), ("lamp", "")]
    assert len(stored(index)) == 5
    (view,) = index.views()
    assert (view.vectors, view.coverage) == (2, 1.0)


def test_several_views_are_filled_in_one_pass(rich, rich_encoder):
    report = rich.add(documents("love this toy", "hate this lamp"), instructions=[MOOD, FAULT])
    (call,) = rich_encoder.passes
    assert (call.texts, call.instructions) == (("love this toy", "hate this lamp"), ("", MOOD, FAULT))
    assert report.embedded == dict.fromkeys(report.views, 2)
    assert report.tokens == 6
    assert [view.instruction for view in rich.views()] == ["", MOOD, FAULT]
    assert [(view.pooling, view.steps, view.dim, view.dtype) for view in rich.views()] == [
        ("counts", DIM, DIM, "float32")
    ] * 3
    assert found(rich.search("hate", instruction=MOOD, mode="dense")) == [("b", 1), ("a", 1 - 2 / 8)]


@pytest.mark.parametrize("spelling", ["", "  ", PRODUCT, f" {PRODUCT}\n"])
def test_the_default_instruction_in_any_spelling_is_the_base_view(path, spelling):
    with Index(path, encoder=RichEncoder()) as index:
        index.add(documents("toy"), instructions=[spelling])
        assert [view.instruction for view in index.views()] == [""]
        assert index.search("toy", instruction=spelling, mode="dense").path == "base"


def test_an_instruction_twice_is_one_view(index, encoder):
    index.add(documents("love"), instructions=[MOOD, f" {MOOD} "])
    assert encoder.read == [("love", ""), ("love", MOOD)]


def test_an_instruction_added_later_completes_its_view_alone(index, encoder):
    index.add(documents("love it", "hate it", "sad"))
    encoder.forget()
    report = index.add([], instructions=[MOOD], options=SMALL)
    assert encoder.read == [("love it", MOOD), ("hate it", MOOD), ("sad", MOOD)]
    assert counts(report) == (0, 0, 0, 0, 0)
    assert report.embedded == {report.views[1]: 3}
    assert [view.coverage for view in index.views()] == [1.0, 1.0]
    result = index.search("sad", instruction=MOOD, mode="dense")
    assert result.path == "complete"
    assert found(result) == [("c", 1), ("a", 1 - 2 / 8), ("b", 1 - 2 / 8)]


def test_new_documents_and_an_unfinished_view_are_read_as_each_needs(rich, rich_encoder):
    rich.add(documents("love it"))
    rich_encoder.forget()
    rich.add(documents("love it", "hate it"), instructions=[MOOD])
    assert sorted((call.texts, call.instructions) for call in rich_encoder.passes) == [
        (("hate it",), ("", MOOD)),
        (("love it",), (MOOD,)),
    ]


def test_a_view_that_was_asked_for_is_filled_ever_after_in_the_same_pass(rich, rich_encoder):
    rich.add(documents("love"), instructions=[MOOD])
    rich.upkeep.complete([FAULT])
    rich_encoder.forget()
    report = rich.add(documents("love", "hate"))
    assert [(call.texts, call.instructions) for call in rich_encoder.passes] == [(("hate",), ("", MOOD, FAULT))]
    assert report.instructions == ["", MOOD, FAULT]
    assert report.embedded == dict.fromkeys(report.views, 1)
    assert [view.coverage for view in rich.views()] == [1.0] * 3


def test_an_instruction_that_is_named_again_is_filled_once(index, encoder):
    index.add(documents("love"), instructions=[MOOD, FAULT])
    encoder.forget()
    report = index.add(documents("love", "hate"), instructions=[f" {FAULT} "])
    assert report.instructions == ["", FAULT, MOOD]
    assert encoder.read == [("hate", ""), ("hate", FAULT), ("hate", MOOD)]
    assert encoder.queries == []  # what is a view already can be read


def test_a_view_that_only_searches_filled_is_left_to_them(index, encoder):
    index.add(documents("love", "hate"))
    index.search("sad", instruction=MOOD)
    encoder.forget()
    report = index.add(documents("love", "hate", "sad"))
    assert (report.instructions, encoder.read) == ([""], [("sad", "")])
    assert [view.coverage for view in index.views()] == [1.0, 0.6667]


def test_a_view_of_the_encoder_before_is_left(path):
    with Index(path, encoder=FakeEncoder()) as index:
        index.add(documents("love"), instructions=[MOOD, FAULT])
    reembed(path, new := FakeEncoder("new"))
    with Index(path, encoder=new) as index:
        index.upkeep.drop_views([FAULT])
        new.forget()
        assert index.add(documents("love", "hate")).instructions == ["", MOOD]
        assert new.read == [("hate", ""), ("hate", MOOD)]


def test_a_view_that_was_left_behind_is_filled(index, encoder):
    index.add(documents("love"), instructions=[MOOD])
    add_to_base(index, documents("love", "hate"))
    encoder.forget()
    index.add([Document("c", "sad")])
    assert encoder.read == [("sad", ""), ("sad", MOOD), ("hate", MOOD)]
    assert [view.coverage for view in index.views()] == [1.0, 1.0]


def test_the_words_of_the_model_come_with_the_hits(index):
    index.add(documents("love hate", "happy"), instructions=[MOOD])
    result = index.search("love hate", instruction=MOOD, mode="dense")
    assert [list(hit.words) for hit in result.hits] == [["love", "hate"], ["happy"]]
    assert index.search("love hate", mode="lexical").hits[0].words == []


class Beginning(FakeEncoder):
    """Answers every text with the beginnings of two words."""

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        found = super().encode_views(texts, instructions, words=words, on_tokens=on_tokens)
        return [Encoded(one.embeddings, [["charg", "unsatis"] for _ in texts]) for one in found]


def test_hits_show_whole_words_of_their_texts(path):
    with Index(path, encoder=Beginning()) as index:
        index.add(documents("love charging", "hate"), instructions=[MOOD])
        hits = index.search("love", instruction=MOOD, mode="dense").hits
    assert {hit.document.text: list(hit.words) for hit in hits} == {"love charging": ["charging"], "hate": []}


def test_sync_deletes_what_is_gone(index):
    index.add(documents("kettle", "toy", "lamp", "knife"))
    changed = [Document("b", "toy"), Document("d", "drone"), Document("e", "cable")]
    report = index.add(changed, options=IndexingOptions(sync=True, batch=2))
    assert counts(report) == (1, 1, 1, 2, 0)
    assert sorted(stored(index)) == ["b", "d", "e"]
    assert index.search("kettle", mode="lexical").hits == []


def test_sync_keeps_what_a_skipped_row_names(index):
    index.add(documents("kettle", "toy", "lamp"))
    report = index.add([bad(1, "a"), Document("b", "toy")], options=SYNC)
    assert counts(report) == (0, 0, 1, 1, 1)
    assert stored(index) == {"a": Document("a", "kettle"), "b": Document("b", "toy")}


def test_sync_deletes_nothing_after_a_row_without_an_id(index):
    index.add(documents("kettle", "toy", "lamp", "knife"))
    report = index.add([bad(1), *[Document("b", "toy")] * 4], options=IndexingOptions(sync=True, batch=2))
    assert report.deleted == 0
    assert sorted(stored(index)) == ["a", "b", "c", "d"]
    assert report.notes == ["Nothing was deleted by --sync: a skipped row had no readable id."]


def test_sync_embeds_nothing_for_what_it_deletes(index, encoder):
    index.add(documents("love", "hate", "sad"))
    encoder.forget()
    index.add([Document("b", "hate")], instructions=[MOOD], options=SYNC)
    assert encoder.read == [("hate", MOOD)]


LONG = "toy lamp knife drone cable pan sofa shoe"  # RichEncoder reads the first six words


def test_it_is_told_which_texts_were_cut_in_this_run(rich):
    report = rich.add(documents(LONG, "toy", LONG, f"{LONG} mug"))
    assert (report.truncated, report.truncated_ids) == (2, ["a", "d"])
    assert report.notes == [
        "2 texts are longer than the 6 tokens that the encoder reads at once: a, d. "
        "Searches without a question find all parts; clusters use the beginning."
    ]
    assert "truncated_ids" not in report.to_json()
    assert (report.added, report.tokens) == (4, 6 + 1 + 6)
    assert stored(rich)["a"].text == LONG
    again = rich.add([Document("a", LONG), Document("e", LONG)])
    assert (again.truncated, again.truncated_ids, again.notes) == (0, [], [])
    under = rich.add([Document("a", LONG)], instructions=[MOOD])
    assert (under.truncated, under.truncated_ids) == (1, ["a"])


def test_of_many_cut_texts_some_are_named_and_all_are_kept(rich):
    corpus = [Document(f"d{row}", f"{LONG} {row}") for row in range(7)]
    report = rich.add(corpus, options=SMALL)
    assert report.truncated_ids == [one.id for one in corpus]
    assert report.notes == [
        "7 texts are longer than the 6 tokens that the encoder reads at once: d0, d1, d2, d3, d4 and 2 more. "
        "Searches without a question find all parts; clusters use the beginning."
    ]


def test_a_text_as_long_as_the_limit_is_not_long(rich):
    report = rich.add(documents("toy lamp knife drone cable pan"), options=IndexingOptions(on_long="error"))
    assert (report.added, report.truncated) == (1, 0)


def test_long_texts_are_skipped(rich, rich_encoder):
    rich.add(documents("kettle", "toy", "lamp"))
    rich_encoder.forget()
    changed = [Document("a", LONG), Document("b", "toy")]
    report = rich.add(changed, options=IndexingOptions(on_long="skip", sync=True))
    assert counts(report) == (0, 0, 1, 1, 1)
    assert rich_encoder.read == []
    assert stored(rich) == {"a": Document("a", "kettle"), "b": Document("b", "toy")}
    (row,) = rich.status().quarantined
    assert (row["id"], row["reason"]) == ("a", "The text has 8 tokens; the encoder reads 6.")
    assert rich.status().runs[0]["status"] == "partial"


def test_a_long_text_ends_the_run_and_keeps_the_batches_before_it(rich):
    corpus = documents("kettle", "toy", "lamp", LONG)
    with pytest.raises(InputError, match=r"document 'd' has 8 tokens; the encoder reads 6\. Shorten it"):
        rich.add(corpus, options=IndexingOptions(on_long="error", batch=2))
    assert sorted(stored(rich)) == ["a", "b"]
    assert rich.status().runs[0]["status"] == "failed"


def test_the_status_is_of_one_state_while_views_are_made_elsewhere(index, path, encoder, monkeypatch):
    index.add([Document("a", "toy happy")])
    other = Index(path, encoder=encoder)
    sources_of = index_status.sources_of

    def then_another(store):
        other.search("toy", instruction=PRODUCT)
        return sources_of(store)

    monkeypatch.setattr(index_status, "sources_of", then_another)
    assert [view.instruction for view in index.status().views] == [""]
    assert [view.instruction for view in index.views()] == ["", PRODUCT]
    other.close()


def test_bad_rows_are_put_aside_and_the_run_goes_on(index):
    rows = [Document("a", "toy"), bad(2, "x"), bad(3), Document("d", "lamp"), Document("e", "knife")]
    report = index.add(iter(rows), options=SMALL)
    assert counts(report) == (3, 0, 0, 0, 2)
    assert (report.read, report.in_hand) == (5, 5)
    assert sorted(stored(index)) == ["a", "d", "e"]
    status = index.status()
    assert [(row["file"], row["line"], row["id"], row["reason"], row["raw"]) for row in status.quarantined] == [
        ("reviews.jsonl", 2, "x", "no text", '{"text": ""}'),
        ("reviews.jsonl", 3, None, "no text", '{"text": ""}'),
    ]
    assert status.runs[0]["status"] == "partial"
    assert status.runs[0]["statistics"] == report.to_json()


def test_bad_rows_are_listed_until_the_next_run_of_index(index):
    index.add([Document("a", "toy"), bad(2), Document("c", "lamp")])
    index.delete(["a"])
    index.upkeep.drop_views([])
    assert [row["line"] for row in index.status().quarantined] == [2]
    index.add([Document("a", "toy")])
    assert index.status().quarantined == []


def test_nothing_but_bad_rows(index, encoder):
    assert counts(index.add([bad(1), bad(2)])) == (0, 0, 0, 0, 2)
    assert (encoder.read, len(index._opened.store.documents)) == ([], 0)
    assert index.search("toy", mode="dense").hits == []


@pytest.mark.parametrize("refused", [Document("", "toy"), Document("b", "")])
def test_a_document_the_store_refuses_ends_the_run(index, refused):
    with pytest.raises(InputError):
        index.add([Document("a", "lamp"), refused])
    assert index.status().runs[0]["status"] == "failed"
    assert stored(index) == {}


def test_what_no_database_takes_is_replaced(index):
    index.add([Document("b\0", "toy \ud800")])
    assert index.get(["b\ufffd"])["b\ufffd"].text == "toy \ufffd"


def test_progress_is_told_as_it_goes(rich):
    seen = []
    rich.add(
        documents("toy", "a lamp", "my red kettle"),
        options=SMALL,
        progress=lambda report: seen.append((report.read, report.in_hand, report.tokens)),
    )
    # Batch one: after a third of its tokens, after all of them. Batch two, while the first is stored. Both stored. The
    # end.
    assert seen == [(0, 0, 1), (0, 2, 3), (0, 3, 6), (2, 3, 6), (3, 3, 6), (3, 3, 6)]


def test_completing_tells_how_many_texts_of_how_many_it_has_reached(rich):
    seen = []
    rich.add(documents("toy", "a lamp", "my red kettle"))
    rich.upkeep.complete(
        [MOOD], options=SMALL, progress=lambda report: seen.append((report.in_hand, report.expected, report.tokens))
    )
    assert seen == [(0, 3, 1), (2, 3, 3), (3, 3, 6), (3, 3, 6), (3, 3, 6), (3, 3, 6)]


def test_a_batch_holds_at_least_one_row():
    with pytest.raises(UsageError, match="A batch of 0 rows holds nothing"):
        IndexingOptions(batch=0)


def test_a_run_is_running_while_it_holds_the_lock(path):
    seen = []
    with Index(path, encoder=FakeEncoder()) as index, Index(path) as other:
        index.add([])
        index._opened.store.runs.start("index")  # of a process that is gone
        index.add(documents("toy"), progress=lambda report: seen.append([one["status"] for one in other.status().runs]))
        index._opened.store.runs.start("delete")  # met a full disk, so that it could not write how it ended
        ended = ["interrupted", "finished", "interrupted", "finished"]
        assert [one["status"] for one in other.status().runs] == ended
    assert seen[-1] == ["running", "interrupted", "finished"]


def test_the_status_tells_what_is_there(index, encoder):
    report = index.add(documents("toy", "toy", "lamp"), instructions=[MOOD])
    index.delete(["c"])
    status = index.status().to_json()
    assert (status["documents"], status["texts"]) == (2, 1)
    assert status["encoder"]["fingerprint"] == encoder.fingerprint
    assert [(view["instruction"], view["vectors"], view["coverage"]) for view in status["views"]] == [
        ("", 2, 1.0),
        (MOOD, 2, 1.0),
    ]
    assert [(run["command"], run["status"]) for run in status["runs"]] == [
        ("delete", "finished"),
        ("index", "finished"),
    ]
    assert status["runs"][1]["statistics"] == report.to_json()
    assert status["size_bytes"] > 0


def test_an_index_made_without_a_name_wants_its_encoder_again(path):
    with Index(path, encoder=FakeEncoder()) as index:
        index.add(documents("toy"))
    with Index(path) as index:
        assert found(index.search("toy", mode="lexical")) == [("a", None)]
        with pytest.raises(EncoderError, match=r"no name\. Pass it: open_index"):
            index.search("toy", mode="dense")


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
