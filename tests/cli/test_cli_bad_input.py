import signal
from dataclasses import replace

import pytest
from cli_fakes import CORPUS, KeywordEncoder

GOOD = b'{"id": "good", "text": "a kettle"}'

BAD = b"{'id': 1}"
REASON = "not JSON: Expecting property name enclosed in double quotes at column 2"


def test_a_bad_row_is_skipped_and_told_with_file_line_and_reason(run, fake, write):
    write(GOOD + b"\n\n" + BAD + b'\n{"id": "last", "text": "a lamp"}\n')
    ran = run("index", "corpus.jsonl", "--json")
    assert ran.code == 3
    assert (ran.document["added"], ran.document["skipped"]) == (2, 1)
    bad = run("status", "--json").document["quarantined"]
    assert [(one["file"], one["line"], one["reason"]) for one in bad] == [("corpus.jsonl", 3, REASON)]
    assert f"corpus.jsonl, line 3: {REASON}" in run("status").out
    again = run("index", "corpus.jsonl")
    assert (again.code, again.out.startswith("Documents: 2 unchanged; 1 row skipped, in ")) == (3, True)
    assert (
        again.err == "`retriever status --index indexes/default` lists the skipped rows with file, line and reason.\n"
    )


def test_embed_stops_at_a_bad_row_and_writes_nothing(run, fake, write, tmp_path):
    write(GOOD + b"\n\n" + BAD + b"\n")
    assert run("embed", "corpus.jsonl", "-o", "v.npy", "--json").failed_with(1, f"corpus.jsonl, line 3: {REASON}")
    assert not (tmp_path / "v.npy").exists()


def test_what_was_recognised_is_told_in_one_line_a_file_and_raw_keeps_values(run, fake, write):
    table = write(b"Review ID,Text,Stars,Version\n7,a kettle,4 stars,2.10\n8,a lamp,2 stars,2.9\n", "a.csv")
    said = (
        "a.csv: id from 'Review ID', text from 'Text'; 'Stars' read as stars; "
        "'Version' is text, as '2.10' is not a number's plain form"
    )
    ran = run("index", table, "--json")
    assert ran.err.splitlines() == [said]
    assert ran.document["reading"] == [said]
    (hit,) = run("search", "kettle", "--where", "Stars > 3 and Version = '2.10'", "--json").document["hits"]
    assert (hit["id"], hit["metadata"]) == ("7", {"Stars": 4, "Version": "2.10"})
    ran = run("index", table, "--raw", "--index", "raw", "--id-field", "Review ID")
    assert "a.csv" not in ran.err
    (hit,) = run("search", "kettle", "--index", "raw", "--where", "Stars = '4 stars'", "--json").document["hits"]
    assert hit["id"] == "7"


@pytest.mark.parametrize("argv", [["index", "--json"], ["embed", "-o", "v.npy", "--json"]], ids=["index", "embed"])
def test_a_file_that_cannot_be_read_is_named_and_nothing_is_made(run, fake, write, tmp_path, argv):
    said = "missing.jsonl.\nCheck the name and the folder you are in."
    assert run(*argv, "missing.jsonl").failed_with(1, said)
    assert run(*argv, write(b"", "empty.jsonl")).failed_with(1, "empty.jsonl has no rows.")
    assert not (tmp_path / "v.npy").exists()
    assert not (tmp_path / "indexes").exists()


def test_a_missing_file_among_several_or_a_place_for_no_file_is_told(run, fake, write, tmp_path):
    assert run("index", write([*CORPUS]), "missing.jsonl").failed_with(1, "There is no file missing.jsonl.")
    assert not (tmp_path / "indexes").exists()
    assert run("embed", "corpus.jsonl", "-o", "no/v.npy").failed_with(1, "no/v.npy cannot be written", "--output")
    assert run("embed", "corpus.jsonl", "-o", tmp_path).failed_with(1, f"{tmp_path} cannot be written: Is a directory")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("-", b"", "{} holds no texts."),
        ("lines.txt", b"\r\n", "{} holds no texts."),
        ("-", b"toy\n\nlamp\n", "{}, line 2 is empty.\nRemove it: every line becomes one vector."),
        ("lines.txt", b"\xef\xbb\xbftoy\r\nlamp\r\n \t\r\n", "{}, line 3 is empty."),
    ],
    ids=["empty", "one end", "blank line", "windows"],
)
def test_embed_names_an_empty_line_since_it_would_shift_the_rows(run, fake, write, tmp_path, name, data, message):
    write(data, "lines.txt")
    assert run("embed", name, "-o", "v.npy", "--json", stdin=data).failed_with(1, message.format(name))
    assert not (tmp_path / "v.npy").exists()


@pytest.mark.parametrize(("command", "code", "data"), [("search", 2, b""), ("delete", 1, b"\n\r\n  \n")])
def test_an_empty_stdin_is_a_mistake_told_in_words(indexed, command, code, data):
    assert indexed(command, "-", stdin=data).failed_with(code, "stdin")


def test_a_stdin_that_is_not_utf8_is_told_in_words(indexed):
    assert indexed("search", "-", stdin=b"lamp\ncaf\xe9\n").failed_with(1, "UTF-8")


BAD_ARGUMENTS = {
    "k of 0": (["search", "kettle", "-k", "0"], ["k is 0.", "Ask for at least 1 hit."]),
    "k in letters": (["search", "kettle", "-k", "many"], ["Invalid value for '-k'", "valid integer"]),
    "empty query": (["search", "  "], ["A query is empty.", "Say what to search for."]),
    "no query": (["search"], ["There is nothing to search for."]),
    "query and document": (["search", "kettle", "--like", "r1"], ["A query and like exclude each other."]),
    "filter of the wrong type": (
        ["cluster", "-k", "1", "--where", "stars = '1'"],
        ["the field stars holds numbers", "Write stars = 1"],
    ),
    "unknown mode": (["search", "kettle", "--mode", "fast"], ["--mode", "'fast'", "'dense', 'lexical', 'hybrid'"]),
    "unknown command": (["searhc", "kettle"], ["No such command 'searhc'.", "Did you mean 'search'?"]),
    "unknown option": (["search", "kettle", "--instuction", "x"], ["--instuction", "--instruction"]),
    "missing argument": (["index"], ["Missing argument 'corpus"]),
    "missing option": (["embed", "a.txt"], ["Missing option '--output'"]),
    "unknown on-long": (
        ["index", "corpus.jsonl", "--on-long", "cut"],
        ["--on-long", "'cut'", "'truncate', 'skip', 'err"],
    ),
    "recall": (["repair", "--min-recall", "7"], ["min_recall is 7.0.", "Give a share between 0 and 1."]),
    "backend": (["repair", "--backend", "fais"], ["There is no vector backend 'fais'.", "Did you mean 'faiss'?"]),
    "server": (["index", "corpus.jsonl", "--backend", "milvus=h"], ["'h' is no address", "http://HOST:19530"]),
    "factory": (["repair", "--factory", "NOPE"], ["'NOPE'", 'Use "auto" or a string of the FAISS index factory']),
}


def test_wrong_usage_is_exit_2_and_names_the_option(indexed):
    for argv, parts in BAD_ARGUMENTS.values():
        assert indexed(*argv).failed_with(2, *parts)


def test_a_filter_error_points_at_the_place(indexed):
    where = "stars > 1 and categry = 'toy'"
    ran = indexed("search", "kettle", "--where", where, "--json")
    assert ran.failed_with(2, "No document has a field 'categry'.", "mean 'category'?")
    assert f"\n  {where}\n  {' ' * 14}^\n" in ran.err


SURROGATES = {
    "query": ["search", "\udcff"],
    "instruction": ["search", "kettle", "--instruction", "\udcff"],
    "instruction of clusters": ["cluster", "--instruction", "\udcff", "-k", "2"],
    "name of clusters": ["cluster", "-k", "2", "--save", "\udcff"],
    "name of saved clusters": ["cluster", "--saved", "\udcff"],
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


def test_arguments_that_are_not_utf8_end_in_words_and_leave_nothing(indexed):
    for name, argv in SURROGATES.items():
        ran = indexed(*argv)
        assert not ran.code or ran.failed_with(ran.code)
        if name.startswith(("instruction", "name")):
            assert ("There is no view" if name == "instruction to drop" else r"'\udcff' is not valid UTF-8.") in ran.err
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
        assert "1 text is longer than the 3 tokens that the encoder reads at once: long. Searches without" in ran.out
        again = run("index", "corpus.jsonl", "--on-long", on_long)  # nothing is embedded, so nothing is cut
        assert again.out.startswith("Documents: 2 unchanged, in ")
        assert "longer" not in again.out


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
    assert ran.err.strip() == "Interrupted. Everything stored so far is kept; the same command continues."
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


ACCENTS = 'id,text\n1,"Für mich zu groß"\n2,plain\n3,"Hält nicht, schön ist es"\n'


def test_a_table_in_another_encoding_stops_before_anything_is_indexed(run, fake, write, tmp_path):
    encoding = "windows-1252"
    name = write(ACCENTS.encode(encoding), "reviews.csv")
    ran = run("index", name, "--json")
    assert ran.failed_with(1, "reviews.csv is not UTF-8", f"run it again with --encoding {encoding}")
    assert not (tmp_path / "indexes").exists()
    ran = run("index", name, "--encoding", encoding, "--json")
    assert (ran.code, ran.document["added"], ran.document["skipped"]) == (0, 3, 0)
    found = run("search", "Hält", "--mode", "lexical", "-k", "1", "--json").document["hits"]
    assert [hit["text"] for hit in found] == ["Hält nicht, schön ist es"]


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


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["search", "- broken", "-k", "3"], "retriever search -k 3 -- '- broken'"),
        (
            ["search", "--what is this", "--index", "my index"],
            "retriever search --index 'my index' -- '--what is this'",
        ),
        (["search", "-broken"], "retriever search -- -broken"),
        (["delete", "-5"], "retriever delete -- -5"),
        (["delete", "r1", "-5", "--", "-6"], "retriever delete r1 -- -5 -6"),
    ],
)
def test_an_argument_that_begins_with_a_dash_gets_the_command_that_takes_it(indexed, argv, command):
    assert indexed(*argv).failed_with(2, "No such option", f"options before that: {command}")


def test_the_command_with_two_dashes_works_and_a_mistyped_option_has_no_such_hint(indexed):
    assert [hit["id"] for hit in indexed("search", "-k", "1", "--json", "--", "- kettle").document["hits"]]
    assert indexed("delete", "--", "-5").failed_with(1, "No document has one of these ids; the first is '-5'.")
    assert "Put --" not in indexed("search", "kettle", "--instrction", "x").err
