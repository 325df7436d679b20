import csv
import io
from dataclasses import replace
from datetime import date

import pytest

from retriever.core.errors import EncoderError, IndexDamagedError, IndexNotFoundError, UsageError
from retriever.core.results import Hit, IndexingReport, SearchResult
from retriever.core.types import Document, Span
from retriever.core.verdicts import Verdict
from retriever.core.words import stem
from retriever.index.profiling import Columns, Profile
from retriever.store.database import Store
from retriever.store.filters import parse_filter
from retriever_app import cards, questions, text
from retriever_app.components import to_csv
from retriever_app.filters import Filters, where
from retriever_app.pages.corpus import model as corpus
from retriever_app.pages.search import model as search
from retriever_app.pages.search.job import LiveAnswer, reading_progress

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
    data = to_csv([{cell: cell, "list": [cell], "n": -1, "none": None}])
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
    _, row = csv.reader(io.StringIO(to_csv([{"text": cell}]).decode("utf-8-sig"), newline=""))
    assert row == [written]


def test_an_export_has_every_column_and_any_text():
    data = to_csv([{"a": 'ä, "b"\n;'}, {"b": "\ud800"}])
    rows = list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline="")))
    assert rows == [{"a": 'ä, "b"\n;', "b": ""}, {"a": "", "b": "?"}]


def test_filters_become_an_expression_that_parses():
    filters = Filters(('O\'Neill "x"', "7"), ("toy",), (4, 1), date(2024, 1, 2), date(2024, 2, 29))
    expression = where(filters, COLUMNS)
    assert expression == (
        "`product` in ('O''Neill \"x\"', '7', 7) and `kind` in ('toy') and "
        "((`labels.stars` >= 0.5 and `labels.stars` < 1.5) or (`labels.stars` >= 3.5 and `labels.stars` < 4.5)) and "
        "`date` >= '2024-01-02' and `date` <= '2024-02-29'"
    )
    assert parse_filter(expression).expression == expression
    assert where(filters, Columns()) is None
    assert where(Filters(), COLUMNS) is None
    with pytest.raises(UsageError, match="after the last"):
        where(Filters(since=date(2024, 2, 1), until=date(2024, 1, 1)), COLUMNS)


def test_the_days_that_are_chosen_are_whole_days_of_utc(tmp_path):
    times = ["2024-01-01T23:59:59Z", "2024-01-02", "2024-02-29 23:59:59.9", "2024-03-01T00:30:00+01:00", "2024-03-01"]
    with Store.open(tmp_path / "corpus.sqlite3", create=True) as store:
        store.documents.upsert([Document(time, "text", {"date": time}) for time in times])

        def days(since, until):
            expression = where(Filters(since=since, until=until), COLUMNS)
            return sorted(document.id for document in store.documents.accepted(parse_filter(expression)))

        assert days(date(2024, 1, 2), date(2024, 2, 29)) == times[1:4]
        assert days(None, date.max) == sorted(times)


@pytest.mark.parametrize(
    ("hit", "says"),
    [
        ({"score": 0.9, "dense_rank": 2, "lexical_rank": 11}, ["ranks 2nd.", "query, it ranks 11th.", "Both"]),
        ({"score": 0.5, "dense_rank": 1, "percentile": 87.4}, ["By meaning, this review ranks 1st."]),
        ({"score": None, "lexical_rank": 3}, ["it ranks 3rd."]),
    ],
)  # fmt: skip
def test_why_a_hit_is_there(hit, says):
    reasons = cards.why(Hit(Document("a", "x"), fused=1.0, **hit))
    assert [part in reason for part, reason in zip(says, reasons, strict=True)] == [True] * len(says)


def test_a_label_takes_the_place_of_what_the_model_answered():
    hits = [Hit(Document(id, f"text {id}"), 0.5, 0.5, ["broken"]) for id in "abc"]
    shown = cards.hit_cards(hits, COLUMNS, {}, labels={"a": "does not fit"}, clear={"a", "b"})
    assert [(card.label, list(card.words)) for card in shown] == [("does not fit", []), ("", ["broken"]), ("", [])]
    untaught = cards.hit_cards(hits, COLUMNS, {})
    assert [list(card.words) for card in untaught] == [["broken"]] * 3


def test_a_card_has_one_line_of_what_matters():
    metadata = {"labels": {"stars": 4.5}, "product": "Kettle", "kind": None, "date": "2024-05-31", "other": 1}
    card = cards.card(Document("a", "word " * 200, metadata), COLUMNS)
    assert (card.stars, card.product, card.about) == ("★★★★☆", "Kettle", "2024-05-31")
    assert card.is_long
    assert len(card.beginning) <= cards.SHORT_CHARACTERS + 2
    assert card.beginning.endswith("word …")
    assert cards.card(Document("a", "short"), COLUMNS).beginning == "short"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("2024-05-31T10:15:00", "2024-05-31 10:15"),
        ("2024-05-31T10:15:00.123Z", "2024-05-31 10:15"),
        ("2024-05-31T10:15+02:00", "2024-05-31 10:15"),
        ("2024-05-31", "2024-05-31"),
        ("Toys T10:15", "Toys T10:15"),
    ],
)
def test_times_of_day_are_shown_to_the_minute(value, shown):
    assert text.moment(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(5, "★★★★★"), (0, "☆☆☆☆☆"), (2.4, "★★☆☆☆"), (6, "")])
def test_stars(value, shown):
    assert text.stars(value, 5) == shown


def test_the_latest_instructions_come_first():
    class View:
        def __init__(self, instruction, last_used, level=None, taught=None):
            self.instruction, self.last_used, self.taught = instruction, last_used, taught
            self.verdict = level and Verdict(instruction, level, 0.5, 40, [], True)

    views = [View("", "9"), View("Old?", "1"), View("What is it used for?", "2"), View("New?", "3")]
    fitting = questions.fitting(COLUMNS)
    rest = [question for question in fitting if question != "What is it used for?"]
    assert questions.suggestions(views, PROFILE) == ["New?", "What is it used for?", "Old?", *rest]
    views = [
        View("New?", "5", "not followed"),
        View("Taught?", "4", "not followed"),
        View("Taught?", "4", taught="lessons"),
        View("Good?", "3", "followed"),
        View("Hm?", "2", "unclear"),
        View("What broke?", "1", "not followed"),
    ]
    assert questions.suggestions(views, PROFILE) == ["Taught?", "Good?", *fitting[:-1], "Hm?", "New?", "What broke?"]


@pytest.mark.parametrize(
    ("path", "mode", "settled", "says"),
    [
        ("base", "hybrid", True, ". Found by meaning and words, without a question."),
        ("base", "dense", True, ". Found by meaning, without a question."),
        ("base", "hybrid", False, ", without your question. The list may change while the model reads more."),
        ("complete", "hybrid", True, "has read all reviews under this question."),
        ("lazy", "dense", True, "has read 142 of 600 reviews under this question."),
        ("lazy", "hybrid", False, "with what is read so far. The list may change while"),
        ("base", "lexical", True, "that contain words of the query"),
    ],
)
def test_the_headline_says_what_kind_of_answer_it_is(path, mode, settled, says):
    result = SearchResult("q", "i", 1, path, mode, [Hit(Document("a", "x"), 0.5, 0.5)], 1.0)
    assert says in search.headline(result, settled=settled, read="142 of 600 reviews")


def test_a_stopped_search_promises_no_change():
    result = SearchResult("q", "i", 1, "base", "hybrid", [Hit(Document("a", "x"), 0.5, 0.5)], 1.0)
    assert search.headline(result, settled=False, stopped=True) == "First 1 review, without your question."


def answer(settled=False, **numbers):
    return LiveAnswer(SearchResult("q", "i", 1, "base", "hybrid", [], 1.0), settled, (), **numbers)


@pytest.mark.parametrize(
    ("live", "says", "share"),
    [
        (answer(), "Choosing the reviews to read first …", None),
        (answer(read=81, of=140, left=120.0), "81 of at most 140 reviews read, about 2 minutes left", 81 / 140),
        (answer(read=81, of=140), "81 of at most 140 reviews read", 81 / 140),
        (answer(waits=True), "Waiting for another search …", None),
    ],
)
def test_how_far_a_search_is(live, says, share):
    progress = reading_progress(live)
    assert progress.sentence == says
    assert progress.share == share


def test_how_hits_moved():
    assert search.moved(["a", "b", "c", "d"], ["a", "c", "e", "b"]) == {"c": "▲ 1", "e": "new", "b": "▼ 2"}
    assert search.moved(["a"], ["a"]) == {}


def test_what_an_indexing_did():
    report = IndexingReport(added=1, unchanged=1200, skipped=2, seconds=3000)
    assert corpus.report_line(report, 3725) == "1 review added, 1,200 unchanged, 2 rows skipped, in 1 h 02 min."
    assert (
        corpus.notes_label(IndexingReport(truncated=1, notes=["x"])) == "1 text is longer than the model reads at once"
    )
    assert corpus.notes_label(IndexingReport(notes=["x", "y"])) == "2 notes"


def test_the_first_questions_fit_what_the_file_holds():
    many = replace(PROFILE, stars={1: 20, 2: 4, 3: 9, 5: 30})
    assert [(start.label, start.stars) for start in questions.starts(many)] == [
        ("What do they complain about?", (1, 2)),
        ("What is praised?", (4, 5)),
        ("What is it about?", ()),
    ]
    assert {start.stars for start in questions.starts(PROFILE)} == {()}  # too few have them to look at alone
    of_ten = replace(PROFILE, stars={3: 30, 10: 30})
    assert [start.stars for start in questions.starts(of_ten)] == [(1, 2, 3, 4), (8, 9, 10), ()]
    others = questions.starts(replace(PROFILE, columns=Columns(date="date"), stars={}))
    assert [start.label for start in others] == ["What is it about?", "What do they want?", "How do they feel?"]
    assert not any("customer" in start.question or "product" in start.question for start in others)


def test_charts_fill_gaps_and_put_the_rest_together():
    assert list(corpus.star_counts(PROFILE).values()) == [0, 3, 0, 0, 1]
    products = corpus.product_counts(PROFILE)
    assert (len(products), products["2 others"]) == (13, 15)
    assert corpus.length_counts(PROFILE) == {"0 to 9": 6, "10 or more": 4}
    assert corpus.profile_facts(PROFILE)["Mean stars"] == "3.2"


@pytest.mark.parametrize(
    ("error", "what", "following"),
    [
        (IndexNotFoundError("It is gone."), "It is gone.", "Choose another index"),
        (IndexDamagedError("It is damaged."), "It is damaged.", "page Models"),
        (EncoderError("No weights.", hint="Install them."), "No weights.", "Install them."),
        (ZeroDivisionError("secret"), "ZeroDivisionError", "go on using the app"),
    ],
)
def test_problems_say_what_to_do(error, what, following):
    problem = text.problem(error)
    assert what in problem.message
    assert following in problem.advice
    assert "secret" not in problem.message + problem.advice


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (82_000, "82 kB"), (4e13, "40000 GB")]
)  # fmt: skip
def test_sizes(number, shown):
    assert text.size(number) == shown


def test_how_long_an_indexing_takes_is_said_before_it():
    assert corpus.time_line(3000, 0, None, 0.1) == ""
    assert corpus.time_line(3000, 0, 0.01, None).startswith("Indexing takes about 30 seconds. You")
    assert corpus.time_line(3000, 1, 0.01, None).startswith("Indexing takes about 30 seconds. You")
    line = corpus.time_line(39_000, 2, 0.01, 0.1)
    assert "about 6 minutes, and the reading under 2 questions about 2 hours more" in line


TEXT = "I bought it in May. It stopped working after two days!\nNo refund (really...). Never again"


def said(text, spans):
    return [text[span.start : span.end] for span in spans]


def test_sentences_end_at_marks_and_lines():
    assert said(TEXT, cards.sentences(TEXT)) == [
        "I bought it in May.",
        "It stopped working after two days!",
        "No refund (really...).",
        "Never again",
    ]
    assert cards.sentences(" \n ") == []
    assert said("It cost 3.50 euros", cards.sentences("It cost 3.50 euros")) == ["It cost 3.50 euros"]


@pytest.mark.parametrize(
    "words",
    ["stop stops stopped stopping", "battery batteries battery's", "charge charged charging charges", "happy happily"],
)
def test_forms_of_a_word_are_alike(words):
    assert len({stem(word) for word in words.split()}) == 1


def test_the_sentence_that_answers_says_most_of_the_query():
    assert said(TEXT, [cards.answering(TEXT, "stopped working", [])]) == ["It stopped working after two days!"]
    assert said(TEXT, [cards.answering(TEXT, "money back", ["refund", "money"])]) == ["No refund (really...)."]
    both = "It works now. The battery backup with batteries is good."
    assert said(both, [cards.answering(both, "stopped working", ["battery", "backup"])]) == ["It works now."]
    assert cards.answering(TEXT, "colour", ["red"]) is None
    assert cards.answering("It stopped.", "stopped", []) is None
    assert cards.answering(TEXT, "", []) is None


def hit(id, text, words=()):
    return Hit(Document(id, text), 0.5, 0.5, words)


def test_the_best_sentence_is_marked_inside_the_text():
    (card,) = cards.hit_cards([hit("a", TEXT)], Columns(), {}, "stopped working")
    assert card.parts == (
        "I bought it in May. ", "It stopped working after two days!", "\nNo refund (really...). Never again"
    )  # fmt: skip
    (card,) = cards.hit_cards([hit("a", TEXT)], Columns(), {})
    assert card.parts == ("", "", TEXT)


def test_a_long_review_is_cut_around_its_best_sentence():
    long = "It looks fine on the table. " * 60 + "Then it stopped working."
    (card,) = cards.hit_cards([hit("a", long)], Columns(), {}, "stopped working")
    before, marked, after = card.parts
    assert (marked, after) == ("Then it stopped working.", "")
    assert before.startswith("… ")
    assert cards.SHORT_CHARACTERS - 20 < len(before + marked) <= cards.SHORT_CHARACTERS + 2


def test_of_a_window_the_best_sentence_is_marked():
    window = replace(hit("a", TEXT), part=Span(20, len(TEXT)))
    (card,) = cards.hit_cards([window], Columns(), {}, "bought refund")
    assert card.parts[1] == "No refund (really...)."


def test_hits_that_say_nearly_the_same_are_folded():
    text = "The very same review of a kettle that leaks from day one on and cannot be sent back"
    hits = [hit("a", text), hit("b", "Something else."), hit("c", text.upper() + " ever"), hit("d", "something ELSE.")]
    first, second = cards.hit_cards(hits, Columns(), {}, "kettle")
    assert [one.id for one in first.alike] == ["c"]
    assert [one.id for one in second.alike] == ["d"]
    assert [one.rank for one in (first, second, *first.alike)] == [1, 2, 0]
    apart = [hit("a", "The kettle broke."), hit("b", "The toy broke.")]
    assert len(cards.hit_cards(apart, Columns(), {}, "broke")) == 2


def test_a_card_shows_what_stands_around_its_sentence():
    body = f"{'before ' * 200}The sentence. {'after ' * 200}"
    start = body.index("The")
    before, marked, after = cards.Card("r", "", "", "", body, mark=Span(start, start + 13)).parts
    assert marked == "The sentence."
    assert before.startswith("… before")
    assert before.endswith("before ")
    assert after.startswith(" after")
    assert after.endswith(" …")
    assert len(before + marked + after) <= cards.SHORT_CHARACTERS + 10
    short = cards.Card("r", "", "", "", "One. Two. Three.", mark=Span(5, 9))
    assert short.parts == ("One. ", "Two.", " Three.")
    assert cards.Card("r", "", "", "", "One. Two.").parts == ("", "", "One. Two.")
