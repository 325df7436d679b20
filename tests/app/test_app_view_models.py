import csv
import io
import re
from datetime import date

import pytest

from retriever.core.errors import EncoderError, IndexDamagedError, IndexNotFoundError, UsageError
from retriever.core.results import Hit, IndexingReport, SearchResult
from retriever.core.types import Document
from retriever.index.profiling import Columns, Profile
from retriever.store.filters import parse_filter
from retriever_app.intake import TableSample
from retriever_app.view_models import cards, corpus, exports, problems, search, text
from retriever_app.view_models.filters import Filters, where

COLUMNS = Columns(product="product", category="kind", stars="labels.stars", date="date")
PROFILE = Profile(
    columns=COLUMNS, documents=10, texts=8, stars={1: 1, 4: 3}, products={f"p{n}": 20 - n for n in range(14)},
    categories={}, months={"2024-05": 4}, days=("2024-05-01", "2024-05-31"), lengths=[(0, 10, 6), (10, None, 4)],
)  # fmt: skip


@pytest.mark.parametrize(
    "cell",
    ["=1+1", "+1", "-1", "@SUM(A1)", "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM(A1)", "\tx", "\rx", "\nx"],
    ids=["=", "+", "-", "@", "wide =", "wide +", "wide -", "wide @", "tab", "return", "newline"],
)
def test_no_cell_is_a_formula(cell):
    data = exports.to_csv([{cell: cell, "list": [cell], "n": -1, "none": None}])
    header, row = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""))
    assert header == [f"'{cell}", "list", "n", "none"]
    assert (row[0], row[2], row[3]) == (f"'{cell}", "-1", "")
    assert row[1].startswith("[")


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("fine;=1+1", "fine;'=1+1"),
        ("a;-1;\uff1d2", "a;'-1;'\uff1d2"),
        ("=1;@x", "'=1;'@x"),
        ("I like it ;-)", "I like it ;-)"),
        ("a; = b", "a; = b"),
    ],
)
def test_no_cell_is_a_formula_where_semicolons_part_cells(cell, written):
    _, row = csv.reader(io.StringIO(exports.to_csv([{"text": cell}]).decode("utf-8-sig"), newline=""))
    assert row == [written]


def test_an_export_has_every_column_and_any_text():
    data = exports.to_csv([{"a": 'ä, "b"\n;'}, {"b": "\ud800"}])
    rows = list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline="")))
    assert rows == [{"a": 'ä, "b"\n;', "b": ""}, {"a": "", "b": "?"}]


@pytest.mark.parametrize(
    "hostile",
    [
        "![x](http://evil/p.png)",
        "[a](javascript:x)",
        "<script>",
        "$x$",
        ":red[a]",
        "# a",
        "a\n\n- b",
        "`a`",
        "**a**",
        "a | b",
    ],
)
def test_nothing_in_a_text_is_markdown(hostile):
    escaped = text.plain(hostile)
    assert "\n" not in escaped
    special = [at for at, one in enumerate(escaped) if one in "![]()<>$:#-`*|"]
    assert all(escaped[at - 1] == "\\" for at in special)
    assert escaped.replace("\\", "").replace("\u2060", "") == " ".join(hostile.split())


@pytest.mark.parametrize(
    "address",
    [
        "http://evil.example/x",
        "see HTTPS://evil.example",
        "www.evil.example",
        "(WWW.evil.example)",
        "a@b.example",
        "a.b-@b.example",
        "http://www.evil.example/a@b.example",
    ],
)
def test_addresses_become_no_links(address):
    shown = text.plain(address).replace("\\", "")  # as Markdown is read before links are looked for in it
    assert not re.search(r"https?://|www\.|[-.\w+]@[-\w]", shown, re.IGNORECASE)
    assert shown.replace("\u2060", "") == address


def test_words_that_are_no_addresses_stay_as_they_are():
    assert text.plain("3 @ 5, http and www") == "3 \\@ 5, http and www"


def test_filters_become_an_expression_that_parses():
    filters = Filters(('O\'Neill "x"', "7"), ("toy",), (4, 1), date(2024, 1, 2), date(2024, 2, 29))
    expression = where(filters, COLUMNS)
    assert expression == (
        "`product` in ('O''Neill \"x\"', '7', 7) and `kind` in ('toy') and "
        "((`labels.stars` >= 0.5 and `labels.stars` < 1.5) or (`labels.stars` >= 3.5 and `labels.stars` < 4.5)) and "
        "`date` >= '2024-01-02' and `date` < '2024-03-01'"
    )
    assert parse_filter(expression).expression == expression
    assert where(filters, Columns()) is None
    assert where(Filters(), COLUMNS) is None
    with pytest.raises(UsageError, match="after the last"):
        where(Filters(since=date(2024, 2, 1), until=date(2024, 1, 1)), COLUMNS)


def test_the_last_day_there_is_leaves_nothing_out():
    assert where(Filters(until=date.max), COLUMNS) == where(Filters(), COLUMNS)


@pytest.mark.parametrize(
    ("hit", "says"),
    [
        ({"score": 0.934, "dense_rank": 2, "lexical_rank": 11}, "2nd by meaning, 11th by its words; cosine 0.93"),
        ({"score": 0.5, "dense_rank": 1, "percentile": 87.4}, "1st by meaning; cosine 0.50, closer than 87 % of"),
        ({"score": 0.5, "percentile": 99.43}, "cosine 0.50, closer than 99.4 % of"),
        ({"score": 1.0, "percentile": 100.0}, "cosine 1.00, closer than any random pair of reviews"),
        ({"score": None, "lexical_rank": 3}, "3rd by its words"),
    ],
)  # fmt: skip
def test_why_a_hit_is_there(hit, says):
    assert cards.why(Hit(Document("a", "x"), fused=1.0, **hit)).removesuffix(" random pairs") == says


def test_a_card_has_one_line_of_what_matters():
    metadata = {"labels": {"stars": 4.5}, "product": "Kettle", "kind": None, "date": "2024-05-31", "other": 1}
    card = cards.card(Document("a", "word " * 200, metadata), COLUMNS)
    assert (card.stars, card.product, card.about) == ("★★★★☆", "Kettle", "2024-05-31")
    assert card.is_long
    assert len(card.beginning) <= cards.SHORT_CHARACTERS + 2
    assert card.beginning.endswith("word …")
    assert cards.card(Document("a", "short"), COLUMNS).beginning == "short"


@pytest.mark.parametrize(
    ("value", "shown"), [(5, "★★★★★"), (0, "☆☆☆☆☆"), (2.4, "★★☆☆☆"), (6, ""), ("3", ""), (True, "")]
)
def test_stars(value, shown):
    assert text.stars(value) == shown


def test_the_latest_instructions_come_first():
    class View:
        def __init__(self, instruction, last_used):
            self.instruction, self.last_used = instruction, last_used

    views = [View("", "9"), View("Old?", "1"), View("What broke?", "2"), View("New?", "3")]
    assert search.suggestions(views) == ["New?", "What broke?", "Old?", *search.SUGGESTED[1:]]


@pytest.mark.parametrize(
    ("path", "mode", "settled", "says"),
    [
        ("base", "hybrid", True, ": by meaning and words, read without an instruction."),
        ("base", "dense", True, ": by meaning, read without an instruction."),
        ("base", "hybrid", False, "being read under it"),
        ("complete", "hybrid", True, "under this instruction, by the model that follows questions."),
        ("lazy", "dense", True, "best candidates were read"),
        ("lazy", "hybrid", False, "of those read under the instruction. The best candidates are being read"),
        ("base", "lexical", True, "by their words"),
    ],
)
def test_the_headline_says_what_kind_of_answer_it_is(path, mode, settled, says):
    result = SearchResult("q", "i", 1, path, mode, [Hit(Document("a", "x"), 0.5, 0.5)], 1.0)
    assert says in search.headline(result, settled=settled)


def test_how_hits_moved():
    assert search.moved(["a", "b", "c", "d"], ["a", "c", "e", "b"]) == {"c": "▲ 1", "e": "new", "b": "▼ 2"}
    assert search.moved(["a"], ["a"]) == {}


def test_progress_in_words():
    assert corpus.progress_line(None, 3.2) == "Loading the model … 3 s"
    assert corpus.progress_line(TableSample(500, 2000, 30.0), 31) == "500 of 2,000 reviews, about 1 min 30 s left"
    assert corpus.progress_line(TableSample(500, None, 30.0), 31) == "500 reviews"
    assert corpus.progress_line(TableSample(0, 2000, 1.0), 31) == "0 of 2,000 reviews"


def test_what_an_indexing_did():
    report = IndexingReport(added=1, unchanged=1200, skipped=2, seconds=3725)
    assert corpus.report_line(report) == "1 review added, 1,200 were there already, 2 rows skipped, in 1 h 02 min."


def test_charts_fill_gaps_and_put_the_rest_together():
    assert [row["reviews"] for row in corpus.star_rows(PROFILE)] == [0, 3, 0, 0, 1]
    rows = corpus.product_rows(PROFILE)
    assert (len(rows), rows[-1]) == (13, {"product": "2 others", "reviews": 15})
    assert [row["words"] for row in corpus.length_rows(PROFILE)] == ["0 to 9", "10 and more"]
    assert corpus.mean_stars(PROFILE) == 13 / 4


@pytest.mark.parametrize(
    ("error", "what", "following"),
    [
        (IndexNotFoundError("It is gone."), "It is gone.", "Choose another index"),
        (IndexDamagedError("It is damaged."), "It is damaged.", "Model and index"),
        (EncoderError("No weights.", hint="Install them."), "No weights.", "Install them."),
        (ZeroDivisionError("secret"), "ZeroDivisionError", "The app goes on"),
    ],
)
def test_problems_say_what_to_do(error, what, following):
    found = problems.problem(error)
    assert what in found.what
    assert following in found.next
    assert "secret" not in found.what + found.next


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (82_000, "82 kB"), (4e13, "40000 GB")]
)  # fmt: skip
def test_sizes(number, shown):
    assert text.size(number) == shown


def test_how_long_an_indexing_takes_is_said_before_it():
    assert corpus.time_line(3000, 0).startswith("Reading them takes about half a minute on a machine like a laptop;")
    assert "about 6 minutes on a machine like a laptop, and 2 instructions about 2 hours more" in corpus.time_line(
        39_000, 2
    )
