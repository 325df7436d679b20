import gzip
import signal
from dataclasses import replace

import pytest
from cli_fakes import CORPUS, KeywordEncoder

GOOD = b'{"id": "good", "text": "a kettle"}'

BAD_ROWS = {
    "not JSON": (b"{'id': 1}", "not JSON: Expecting property name enclosed in double quotes at column 2"),
    "no object": (b'["a"]', "not a JSON object but a list; write one object a line"),
    "missing text": (b'{"id": 1, "txt": "a"}', "no text: no usual text field; the row has 'id', 'txt'; name the field"),
    "missing id": (b'{"text": "a"}', "no id, though the rows before have one; the row has 'text'; name the field with"),
    "wrong type of text": (b'{"id": 1, "text": 5}', "the text in 'text' is a number, not a string"),
    "wrong type of id": (b'{"id": [], "text": "a"}', "the id in 'id' is a list, not a string or number"),
    "duplicate id": (b'{"id": "good", "text": "a"}', "the id 'good' is taken by corpus.jsonl:1; ids must differ"),
    "empty text": (b'{"id": 1, "text": " \\t"}', "the text in 'text' is empty"),
    "NUL": (b'{"id": 1, "text": "a\\u0000b"}', "'text' holds a NUL character; remove it"),
    "lone surrogate": (b'{"id": 1, "text": "\\ud83d"}', "'text' holds half a surrogate pair, which is not text"),
    "lone surrogate id": (b'{"id": "\\udc00", "text": "a"}', "'id' holds half a surrogate pair, which is not text"),
    "not UTF-8": (b'{"id": 1, "text": "caf\xe9"}', "not UTF-8: byte 0xe9 at position 23; mend it"),
    "huge": (
        b'{"id": 1, "text": "' + b"ab " * 3_500_000 + b'"}',
        "the text has 10,500,000 characters, more than 1,000",
    ),
}


@pytest.mark.parametrize(("row", "reason"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_bad_row_is_skipped_and_told_with_file_line_and_reason(run, fake, write, row, reason):
    write(GOOD + b"\n\n" + row + b'\n{"id": "last", "text": "a lamp"}\n')
    ran = run("index", "corpus.jsonl", "--json")
    assert ran.code == 3
    assert (ran.document["added"], ran.document["skipped"]) == (2, 1)
    bad = run("status", "--json").document["quarantined"]
    assert [(one["file"], one["line"], one["reason"][: len(reason)]) for one in bad] == [("corpus.jsonl", 3, reason)]
    assert len(bad[0]["raw"]) <= 2000
    assert f"corpus.jsonl, line 3: {reason}" in run("status").out


@pytest.mark.parametrize(("row", "reason"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_embed_stops_at_a_bad_row_and_writes_nothing(run, fake, write, tmp_path, row, reason):
    write(GOOD + b"\n\n" + row + b"\n")
    assert run("embed", "corpus.jsonl", "-o", "v.npy", "--json").failed_with(1, f"corpus.jsonl, line 3: {reason}")
    assert not (tmp_path / "v.npy").exists()


def test_exit_3_says_where_the_skipped_rows_are_listed(run, fake, write):
    ran = run("index", write(GOOD + b"\n{\n"))
    assert ran.code == 3
    assert "1 added, 0 updated, 0 unchanged, 0 deleted, 1 skipped" in ran.out
    assert ran.err == "`retriever status --index indexes/default` lists the skipped rows with file, line and reason.\n"


def test_the_skipped_rows_are_listed_until_the_next_index_run(run, fake, write):
    run("index", write(GOOD + b'\n{\n{"id": "b", "text": "c"}\n'))
    run("delete", "good")
    run("compact")
    assert "corpus.jsonl, line 2: not JSON" in run("status").out
    assert [one["line"] for one in run("status", "--json").document["quarantined"]] == [2]
    run("index", write(GOOD + b"\n"))
    assert run("status", "--json").document["quarantined"] == []


def test_bad_rows_of_a_table_are_told_with_their_line(run, fake, write):
    assert run("index", write(b'id,text\n1,"a\nb"\n2,\n', "a.csv")).code == 3
    assert "a.csv, line 4: the text in 'text' is null, not a string" in run("status").out


@pytest.mark.parametrize("data", [b"\xef\xbb\xbf", b""], ids=["mark", "plain"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
def test_byte_order_marks_and_windows_line_ends_leave_no_trace(run, fake, write, data, end):
    for name, rows in {"a.jsonl": [GOOD, GOOD.replace(b"good", b"b")], "a.csv": [b"id,text", b"c,a lamp"]}.items():
        assert run("index", write(data + end.join(rows) + end, name)).code == 0
    hits = run("search", "kettle", "--json").document["hits"]
    assert {hit["id"]: hit["text"] for hit in hits} == {"good": "a kettle", "b": "a kettle", "c": "a lamp"}
    assert all(hit["metadata"] == {} for hit in hits)


def cases(write, tmp_path):
    (tmp_path / "folder.jsonl").mkdir()
    return {
        write(b"", "empty.jsonl"): "empty.jsonl has no rows.\nWas it written completely?",
        write(b"\n \n", "blank.jsonl"): "blank.jsonl has no rows.",
        write(b"", "empty.csv"): "empty.csv has no rows.",
        write(b"id,text\n", "header.csv"): "header.csv has no rows.",
        write(b"a,b\n1,2\n", "no-text.csv"): "no-text.csv has no text column.\nName one with --text-field: 'a', 'b'.",
        write("{}".encode("utf-16"), "wide.jsonl"): "wide.jsonl is not UTF-8: in utf-16, line 1 reads '{}'.",
        write(gzip.compress(GOOD * 9)[:20], "cut.jsonl.gz"): "cut.jsonl.gz is cut off in the middle.",
        write(GOOD, "no.jsonl.gz"): "no.jsonl.gz cannot be read: ",
        write(b"no", "no.parquet"): "no.parquet",
        write(GOOD, "corpus.docx"): "corpus.docx has a format that is not known.\nReadable are .jsonl, .ndjson, .csv",
        "missing.jsonl": "There is no file missing.jsonl.\nCheck the name and the folder you are in.",
        "folder.jsonl": "folder.jsonl is a folder.\nName its files, e.g. folder.jsonl/*.jsonl.",
    }


@pytest.mark.parametrize("argv", [["index", "--json"], ["embed", "-o", "v.npy", "--json"]], ids=["index", "embed"])
def test_a_file_that_cannot_be_read_is_named_and_nothing_is_made(run, fake, write, tmp_path, argv):
    for name, message in cases(write, tmp_path).items():
        assert run(*argv, name).failed_with(1, message)
    assert not (tmp_path / "v.npy").exists()
    assert not (tmp_path / "indexes").exists()


def test_one_missing_file_among_several_stops_the_run_before_it_begins(run, fake, write, tmp_path):
    assert run("index", write([*CORPUS]), "missing.jsonl").failed_with(1, "There is no file missing.jsonl.")
    assert not (tmp_path / "indexes").exists()


@pytest.mark.parametrize("name", ["lines.txt", "-"])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "{} holds no texts."),
        (b"\r\n", "{} holds no texts."),
        (b"toy\n\nlamp\n", "{}, line 2 is empty.\nRemove it: every line gives one row."),
        (b"\xef\xbb\xbftoy\r\nlamp\r\n \t\r\n", "{}, line 3 is empty."),
    ],
    ids=["empty", "one end", "blank line", "windows"],
)
def test_embed_names_an_empty_line_since_it_would_shift_the_rows(run, fake, write, tmp_path, name, data, message):
    write(data, "lines.txt")
    assert run("embed", name, "-o", "v.npy", "--json", stdin=data).failed_with(1, message.format(name))
    assert not (tmp_path / "v.npy").exists()


@pytest.mark.parametrize("name", ["lines.txt", "-"])
def test_embed_refuses_lines_that_are_not_utf8(run, fake, write, name):
    data = b"fine\ncaf\xe9\n"
    shown = "stdin" if name == "-" else name
    ran = run("embed", write(data, "lines.txt") if name != "-" else "-", "-o", "v.npy", stdin=data)
    assert ran.failed_with(1, "Name its encoding with --encoding.")
    assert shown in ran.err or ran.err.startswith("Error: - ")


def test_embed_names_a_missing_text_file_and_an_output_it_cannot_write(run, fake, write, tmp_path):
    assert run("embed", "missing.txt", "-o", "v.npy").failed_with(1, "missing.txt")
    corpus = write(CORPUS)
    assert run("embed", corpus, "-o", "no/v.npy").failed_with(1, "no/v.npy cannot be written: No such file", "--output")
    assert run("embed", corpus, "-o", tmp_path).failed_with(1, f"{tmp_path} cannot be written: Is a directory")


@pytest.mark.parametrize("data", [b"", b"\n\r\n  \n"])
@pytest.mark.parametrize("argv", [["search", "-"], ["search", "-", "--mode", "lexical"], ["delete", "-"]], ids=" ".join)
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_an_empty_stdin_is_a_mistake_told_in_words(indexed, argv, data, form):
    ran = indexed(*argv, *form, stdin=data)
    assert ran.code in (1, 2)
    assert ran.failed_with(ran.code, "stdin")


def test_an_empty_stdin_is_no_corpus(run, fake, tmp_path):
    assert run("index", "-", "--json", stdin=b"").failed_with(1, "has no rows.")


@pytest.mark.parametrize("argv", [["search", "-"], ["delete", "-"]], ids=" ".join)
def test_a_stdin_that_is_not_utf8_is_told_in_words(indexed, argv):
    ran = indexed(*argv, stdin=b"lamp\ncaf\xe9\n")
    assert ran.failed_with(ran.code, "UTF-8")


BAD_ARGUMENTS = {
    "k of 0": (["search", "kettle", "-k", "0"], ["k is 0.", "Ask for at least 1 hit."]),
    "negative k": (["search", "kettle", "-k", "-3"], ["k is -3."]),
    "k of 0 beside a document": (["search", "--like", "r1", "-k", "0"], ["k is 0."]),
    "k in letters": (["search", "kettle", "-k", "many"], ["Invalid value for '-k'", "valid integer"]),
    "steps in letters": (["search", "kettle", "--steps", "auto"], ["Invalid value for '--steps'", "valid integer"]),
    "no steps": (["search", "kettle", "--steps", "0"], ["Invalid value for '--steps'"]),
    "like by words": (
        ["search", "--like", "r1", "--mode", "lexical"],
        ["found by vectors, not in mode lexical", "Leave the mode out"],
    ),
    "like by both": (["search", "--like", "r1", "--mode", "hybrid"], ["found by vectors, not in mode hybrid"]),
    "empty query": (["search", "  "], ["A query is empty.", "Say what to look for."]),
    "no query": (["search"], ["Give either a query or --like ID."]),
    "query and document": (["search", "kettle", "--like", "r1"], ["Give either a query or --like ID."]),
    "unknown mode": (["search", "kettle", "--mode", "fast"], ["--mode", "'fast'", "'dense', 'lexical', 'hybrid'"]),
    "unknown command": (["searhc", "kettle"], ["No such command 'searhc'.", "Did you mean 'search'?"]),
    "unknown option": (["search", "kettle", "--instuction", "x"], ["--instuction", "--instruction"]),
    "missing argument": (["index"], ["Missing argument 'corpus"]),
    "missing option": (["embed", "a.txt"], ["Missing option '--output'"]),
    "unknown on-long": (
        ["index", "corpus.jsonl", "--on-long", "cut"],
        ["--on-long", "'cut'", "'truncate', 'skip', 'err"],
    ),
    "recall": (["compact", "--min-recall", "7"], ["min_recall is 7.0.", "Give a share between 0 and 1."]),
    "backend": (["compact", "--backend", "fais"], ["There is no vector backend 'fais'.", "Did you mean 'faiss'?"]),
    "server": (["index", "corpus.jsonl", "--backend", "qdrant=h"], ["'h' is no address", "http://HOST:6333"]),
    "factory": (["compact", "--factory", "NOPE"], ["'NOPE'", 'Use "auto" or a string of the FAISS index factory']),
}


@pytest.mark.parametrize(("argv", "parts"), BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS)
def test_wrong_usage_is_exit_2_and_names_the_option(indexed, argv, parts):
    assert indexed(*argv).failed_with(2, *parts)


FILTERS = {
    "unknown field": ("strs <= 2", "No document has a field 'strs'.", 0, "Did you mean 'stars'?"),
    "unknown, second": ("stars > 1 and categry = 'toy'", "No document has a field 'categry'.", 14, "mean 'category'?"),
    "nothing near": ("xyzzy = 1", "No document has a field 'xyzzy'.", 0, "Known: category, stars."),
    "no value": ("stars <= ", "Expected a value", 9, "the filter ends here"),
    "no operator": ("stars 2", "Expected one of = != < <= > >= in has contains, but there is '2' here.", 6, ""),
    "open quote": ("category = 'toy", "A quote is not closed", 11, ""),
    "open bracket": ("(stars = 2", "Expected `)`, but the filter ends here.", 10, ""),
    "bare word": ("category = toy", "Expected a value (text and dates go in quotes", 11, "there is 'toy'"),
    "two filters": ("stars = 1 stars = 2", "Expected `and`, `or` or the end", 10, "there is 'stars'"),
    "SQL": ("1=1; DROP TABLE documents", "is not understood", 3, ""),
}


@pytest.mark.parametrize(("where", "problem", "place", "hint"), FILTERS.values(), ids=FILTERS)
def test_a_filter_error_points_at_the_place(indexed, where, problem, place, hint):
    for argv in (["kettle"], ["kettle", "--mode", "lexical"], ["--like", "r1"]):
        ran = indexed("search", *argv, "--where", where, "--json")
        assert ran.failed_with(2, problem, hint)
        assert f"\n  {where}\n  {' ' * place}^\n" in ran.err


def test_a_filter_longer_than_the_limit_is_refused(indexed):
    where = " or ".join(["stars = 1"] * 400)
    assert indexed("search", "kettle", "--where", where).failed_with(2, f"The filter has {len(where)} characters; at")


SURROGATES = {
    "query": ["search", "\udcff"],
    "instruction": ["search", "kettle", "--instruction", "\udcff"],
    "instruction of clusters": ["cluster", "--instruction", "\udcff", "-k", "2"],
    "name of clusters": ["cluster", "-k", "2", "--save", "\udcff"],
    "name of saved clusters": ["cluster", "--saved", "\udcff"],
    "name of counted clusters": ["numbers", "\udcff"],
    "name of reported clusters": ["report", "\udcff"],
    "instruction compared": ["compare", "--instruction", "a", "--instruction", "\udcff", "-k", "2"],
    "instruction compared by ranks": ["compare", "--instruction", "a", "--instruction", "\udcff", "--query", "kettle"],
    "instruction to complete": ["views", "--complete", "\udcff"],
    "instruction to drop": ["views", "--drop", "\udcff"],
    "instruction to index": ["index", "corpus.jsonl", "--instruction", "\udcff"],
    "filter": ["search", "kettle", "--where", "\udcff = 1"],
    "value": ["search", "kettle", "--where", "category = '\udcff'"],
    "document": ["search", "--like", "\udcff"],
    "ids": ["delete", "\udcff"],
    "corpus": ["index", "\udcff.jsonl"],
    "folder": ["status", "--index", "\udcff"],
}


@pytest.mark.parametrize("argv", SURROGATES.values(), ids=SURROGATES)
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_arguments_that_are_not_utf8_end_in_words(indexed, argv, form):
    ran = indexed(*argv, *form)
    if ran.code:
        assert ran.failed_with(ran.code)


@pytest.mark.parametrize("name", [name for name in SURROGATES if name.startswith(("instruction", "name"))])
def test_instructions_and_names_that_are_not_utf8_are_refused_and_leave_nothing(indexed, name):
    says = "There is no view" if name == "instruction to drop" else r"'\udcff' is not valid UTF-8."
    assert says in indexed(*SURROGATES[name]).err
    assert len(indexed("views", "--json").document["views"]) == 1


@pytest.mark.parametrize("on_long", ["truncate", "skip", "error"])
def test_texts_over_the_limit_are_cut_skipped_or_refused(run, write, monkeypatch, on_long):
    class Short(KeywordEncoder):
        spec = replace(KeywordEncoder.spec, max_text_tokens=3)

        def count_tokens(self, texts):
            return [len(text.split()) for text in texts]

    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda *name, **options: Short())
    rows = [{"id": "short", "text": "a kettle"}, {"id": "long", "text": "one two three four"}]
    ran = run("index", write(rows), "--on-long", on_long)
    if on_long == "error":
        assert ran.failed_with(
            1, "The text of document 'long' has 4 tokens; the encoder reads 3.", "--on-long truncate"
        )
    elif on_long == "skip":
        assert ran.code == 3
        reason = "The text has 4 tokens; the encoder reads 3."
        [bad] = run("status", "--json").document["quarantined"]
        assert (bad["document_id"] if "document_id" in bad else bad["id"], bad["reason"]) == ("long", reason)
    else:
        assert ran.code == 0
        assert "1 text was cut to the encoder's 3 tokens: long.\n" in ran.out
        again = run("index", "corpus.jsonl", "--on-long", on_long)  # nothing is embedded, so nothing is cut
        assert "0 vectors" in again.out
        assert "cut" not in again.out


def test_sync_deletes_nothing_while_a_bad_row_has_no_id(run, fake, write):
    run("index", write(CORPUS))
    ran = run("index", write(GOOD + b"\n{\n"), "--sync")
    assert ran.code == 3
    assert "Nothing was deleted by --sync: a skipped row had no readable id." in ran.out
    assert run("status", "--json").document["documents"] == 6


def test_a_document_that_is_not_there_is_named(indexed):
    assert indexed("search", "--like", "zz").failed_with(1, "There is no document 'zz'.")
    assert indexed("delete", "zz", "--json").failed_with(1, "No document has one of these ids; the first is 'zz'.")


def test_an_interrupt_ends_with_130_and_the_next_run_goes_on(run, write, monkeypatch, request):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    class Interrupted(KeywordEncoder):
        def encode_views(self, texts, instructions, **options):
            signal.raise_signal(signal.SIGINT)
            return super().encode_views(texts, instructions, **options)

    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda *name, **options: Interrupted())
    ran = run("index", write(CORPUS), "--json")
    assert (ran.code, ran.out) == (130, "")
    assert ran.err.strip() == "Interrupted. What was stored stays; run the same command to go on."
    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda *name, **options: KeywordEncoder())
    assert run("index", "corpus.jsonl", "--json").document["added"] == 5
    runs = run("status", "--json").document["runs"]
    assert [one["status"] for one in runs] == ["finished", "interrupted"]


def test_only_debug_shows_a_traceback(run, fake, monkeypatch):
    def fail(*argv, **options):
        raise ZeroDivisionError("by hand")

    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", fail)
    ran = run("embed", "-o", "v.npy", stdin=b"a\n")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "Error: Unexpected ZeroDivisionError: by hand\nRETRIEVER_DEBUG=1 shows where; please report it.\n"
    )
    monkeypatch.setenv("RETRIEVER_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run("embed", "-o", "v.npy", stdin=b"a\n")


def test_json_lines_on_stdin_may_be_bad_too(run, fake):
    ran = run("index", "-", "--json", stdin=GOOD + b"\nnope\n")
    assert ran.code == 3
    [bad] = run("status", "--json").document["quarantined"]
    assert (bad["line"], bad["raw"]) == (2, "nope")


ACCENTS = 'id,text\n1,"Für mich zu groß"\n2,plain\n3,"Hält nicht, schön ist es"\n'


@pytest.mark.parametrize("encoding", ["windows-1252", "utf-16"])
def test_a_table_in_another_encoding_stops_before_anything_is_indexed(run, fake, write, tmp_path, encoding):
    name = write(ACCENTS.encode(encoding), "reviews.csv")
    ran = run("index", name, "--json")
    assert ran.failed_with(1, "reviews.csv is not UTF-8", f"run it again with --encoding {encoding}")
    assert not (tmp_path / "indexes").exists()
    ran = run("index", name, "--encoding", encoding, "--json")
    assert (ran.code, ran.document["added"], ran.document["skipped"]) == (0, 3, 0)
    found = run("search", "Hält", "--mode", "lexical", "-k", "1", "--json").document["hits"]
    assert [hit["text"] for hit in found] == ["Hält nicht, schön ist es"]


def test_semicolons_are_read_without_a_word(run, fake, write):
    ran = run("index", write(b"id;text;stars\n1;Good, cheap;4\n2;Bad;1\n", "reviews.csv"), "--json")
    assert (ran.code, ran.document["added"], ran.err) == (0, 2, "")


@pytest.mark.parametrize("name", ["reviews.csv", "lines.txt", "-"])
def test_embed_reads_another_encoding_when_it_is_named(run, fake, write, tmp_path, name):
    data = "text\nFür mich\nschön\n".encode("windows-1252")
    argv = ["embed", "-" if name == "-" else write(data, name), "-o", "v.npy", "--json"]
    assert run(*argv, stdin=data).failed_with(1, "--encoding")
    assert not (tmp_path / "v.npy").exists()
    assert run(*argv, "--encoding", "windows-1252", stdin=data).document["texts"] == (2 if name == "reviews.csv" else 3)


@pytest.mark.parametrize("command", [["index"], ["embed", "-o", "v.npy"], ["finetune", "-o", "model"]], ids=" ".join)
def test_an_encoding_that_nobody_knows_is_wrong_usage(run, fake, write, command):
    ran = run(*command, write(ACCENTS.encode(), "reviews.csv"), "--encoding", "windows-125")
    assert ran.failed_with(2, "There is no text encoding 'windows-125'.", "Did you mean 'windows-125")
