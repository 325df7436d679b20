import pytest
from label_fakes import (
    AMBIENCE,
    BAD,
    FOOD,
    GOOD,
    SERVICE,
    BlindEncoder,
    Oracle,
    bench,
    by_metric,
    restaurant_rows,
    sentences,
    write_rows,
)

from retriever.core.errors import InputError
from retriever.evaluation import awareness
from retriever.evaluation.labelled import LABELLED, load_texts
from retriever.evaluation.metrics import SEEDS
from retriever.evaluation.suites import DataFile
from retriever.evaluation.wordings import find_wordings

KINDS, MOODS = (FOOD, SERVICE, AMBIENCE), (GOOD, BAD)
RESTAURANTS = "aspects_restaurant_acos.jsonl"
ASPECT, POLARITY = (find_wordings("restaurants", one).instruction for one in ("aspect", "polarity"))
BY_KIND, BY_MOOD = "What is it about?", "How is it judged?"


def restaurants(tmp_path, encoder, rows=None, **options):
    write_rows(tmp_path, RESTAURANTS, restaurant_rows() if rows is None else rows)
    return by_metric(awareness.restaurants(bench(tmp_path, encoder, **options)))


def triplet_rows():
    """Triplets whose anchor is about soup or a waiter, in both moods, under two wordings of both instructions."""
    rows = []
    for number, (text, kind, mood) in enumerate(sentences((FOOD, SERVICE), MOODS, 5)):
        other_kind, other_mood = {FOOD: SERVICE, SERVICE: FOOD}[kind], {GOOD: BAD, BAD: GOOD}[mood]
        please = " Please." if number % 2 else ""
        rows.append(
            {
                "id": str(number),
                "anchor": text,
                "same_kind": f"{kind} {other_mood} again {number}",
                "same_mood": f"{other_kind} {mood} again {number}",
                "instructions": {"kind": BY_KIND + please, "mood": BY_MOOD + please},
            }
        )
    return rows


def triplets(tmp_path, encoder, rows=None, **options):
    write_rows(tmp_path, DataFile.TRIPLETS, triplet_rows() if rows is None else rows)
    return by_metric(awareness.triplets(bench(tmp_path, encoder, **options)))


def obedient(kind=KINDS, mood=MOODS):
    wordings = {BY_KIND: kind, BY_KIND + " Please.": kind, BY_MOOD: mood, BY_MOOD + " Please.": mood}
    return Oracle({ASPECT: kind, POLARITY: mood} | wordings)


def test_an_encoder_that_obeys_scores_everything(tmp_path):
    scores = restaurants(tmp_path, obedient())
    assert list(scores) == [
        "triplets, success by aspect",
        "triplets, success by polarity",
        "triplets, harmonic mean",
        "pairs, Spearman by aspect",
        "pairs, Spearman by polarity",
        "pairs, mean Spearman",
        "clustering, V-measure by aspect",
        "clustering, V-measure by polarity",
        "clustering, harmonic mean",
    ]
    for score in scores.values():
        assert score.task == "restaurants"
        assert (score.value, score.low, score.high) == pytest.approx((100, 100, 100))
        assert score.items == 48
    headlines = [metric for metric, score in scores.items() if score.headline]
    assert headlines == ["triplets, harmonic mean", "pairs, mean Spearman", "clustering, harmonic mean"]
    assert "10 triplets of each of 48 texts" in scores["triplets, harmonic mean"].note
    assert f"{SEEDS} runs" in scores["clustering, V-measure by aspect"].note
    assert "against the other: 0.0" in scores["clustering, harmonic mean"].note


def test_an_encoder_that_hears_one_instruction_alone_fails_the_other(tmp_path):
    scores = restaurants(tmp_path, obedient(mood=KINDS))
    assert scores["triplets, success by aspect"].value == 100
    assert scores["triplets, success by polarity"].value == 0
    assert scores["triplets, harmonic mean"].value == 0
    assert scores["pairs, Spearman by aspect"].value == pytest.approx(100)
    assert scores["pairs, Spearman by polarity"].value == pytest.approx(0)
    assert scores["pairs, mean Spearman"].value == pytest.approx(50)
    assert scores["clustering, V-measure by polarity"].value == pytest.approx(0, abs=1e-6)
    assert scores["clustering, harmonic mean"].value == pytest.approx(0, abs=1e-4)


def test_a_blind_encoder_gets_at_most_half_of_the_triplets(tmp_path):
    for scores in (
        restaurants(tmp_path, BlindEncoder()),
        restaurants(tmp_path, Oracle({ASPECT: KINDS, POLARITY: KINDS})),
        triplets(tmp_path, BlindEncoder()),
    ):
        successes = [score.value for metric, score in scores.items() if "triplets, success" in metric]
        assert len(successes) == 2
        assert sum(successes) <= 100 + 1e-9
        assert scores["triplets, harmonic mean"].value <= 50
        assert scores["triplets, harmonic mean"].high <= 50 + 1e-9


def test_texts_are_read_once_under_both_instructions(tmp_path):
    encoder = obedient()
    restaurants(tmp_path, encoder)
    assert [instructions for _, instructions in encoder.calls] == [[ASPECT, POLARITY]]
    assert len(encoder.calls[0][0]) == 48


def test_a_limit_takes_fewer_texts_of_every_cell(tmp_path):
    encoder = obedient()
    assert restaurants(tmp_path, encoder, limit=18)["pairs, mean Spearman"].items == 18
    kept = [text.rsplit(" ", 1)[0] for text in encoder.calls[0][0]]
    assert {cell: kept.count(cell) for cell in kept} == {f"{kind} {mood}": 3 for kind in KINDS for mood in MOODS}


def test_product_reviews_are_judged_by_category_and_polarity(tmp_path):
    rows = [
        {"text": text, "labels": {"category": kind, "polarity": mood, "stars": 1}, "split": "test"}
        for text, kind, mood in sentences(("toy", "book"), MOODS, 3)
    ]
    asked = [find_wordings("reviews", one).instruction for one in ("category", "polarity")]
    write_rows(tmp_path, "reviews_dmaste.jsonl", rows)
    scores = by_metric(
        awareness.reviews(bench(tmp_path, Oracle(dict(zip(asked, [("toy", "book"), MOODS], strict=True)))))
    )
    assert scores["triplets, success by category"].value == scores["triplets, success by polarity"].value == 100


def test_sentences_about_products_count_with_one_polarity_alone(tmp_path):
    rows = [
        {
            "text": text,
            "labels": {"product": kind},
            "aspects": [{"aspect": "x", "polarity": mood}] * 2,
            "split": "test",
        }
        for text, kind, mood in sentences(("phone", "camera"), MOODS, 3)
    ]
    mixed = [{"aspect": "x", "polarity": GOOD}, {"aspect": "y", "polarity": BAD}]
    rows.append({"text": "phone of two minds", "labels": {"product": "phone"}, "aspects": mixed, "split": "test"})
    rows.append({"text": "phone of no mind", "labels": {"product": "phone"}, "aspects": [], "split": "test"})
    encoder = BlindEncoder()
    write_rows(tmp_path, "aspects_huliu.jsonl", rows)
    assert len(list(awareness.products(bench(tmp_path, encoder)))) == 9
    assert encoder.calls[0][0] == [row["text"] for row in rows[:12]]


def test_triplets_of_a_file_under_their_own_instructions(tmp_path):
    encoder = obedient()
    scores = triplets(tmp_path, encoder)
    assert list(scores) == ["triplets, success by kind", "triplets, success by mood", "triplets, harmonic mean"]
    assert {score.value for score in scores.values()} == {100}
    assert {score.items for score in scores.values()} == {20}
    please = [BY_KIND + " Please.", BY_MOOD + " Please."]
    assert [instructions for _, instructions in encoder.calls] == [[BY_KIND, BY_MOOD], please]


def test_triplets_by_hand(tmp_path):
    rows = triplet_rows()[:4]
    rows[0]["same_kind"] = f"{SERVICE} {BAD} mislabelled"  # by kind the anchor is as far from both: a tie is a failure
    scores = triplets(tmp_path, obedient(), rows)
    assert scores["triplets, success by kind"].value == 75
    assert scores["triplets, success by mood"].value == 100
    assert scores["triplets, harmonic mean"].value == pytest.approx(2 / (1 / 75 + 1 / 100))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"anchor": None}, "row 3: 'anchor' is not a string"),
        ({"same_mood": ...}, "row 3: 'same_mood' is missing"),
        ({"instructions": {"kind": BY_KIND}}, "row 3: 'instructions.mood' is missing"),
    ],
)
def test_a_broken_triplet_is_named(tmp_path, change, problem):
    rows = triplet_rows()
    rows[2] = {key: value for key, value in (rows[2] | change).items() if value is not ...}
    with pytest.raises(InputError) as raised:
        triplets(tmp_path, obedient(), rows, limit=1)
    assert raised.value.message == f"{tmp_path / DataFile.TRIPLETS}, {problem}."


def test_triplets_of_three_criteria_are_refused(tmp_path):
    rows = triplet_rows()
    rows[0]["instructions"]["length"] = "How long is it?"
    with pytest.raises(InputError, match=r"row 1: 'instructions' names 3 criteria and not two"):
        triplets(tmp_path, obedient(), rows)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"text": "x"}, "row 3: 'aspects' is missing"),
        ({"text": "x", "aspects": [{"aspect": "FOOD#QUALITY"}]}, "row 3: aspect 1 has no 'polarity'"),
        ({"text": "x", "aspects": [{"polarity": "positive"}]}, "row 3: aspect 1 has no 'aspect'"),
    ],
)
def test_a_row_without_its_labels_is_named(tmp_path, row, problem):
    rows = restaurant_rows()
    rows[2] = row
    with pytest.raises(InputError) as raised:
        restaurants(tmp_path, obedient(), rows)
    assert raised.value.message == f"{tmp_path / RESTAURANTS}, {problem}."


def test_labels_that_never_cross_are_refused(tmp_path):
    crossing = {(FOOD, GOOD), (SERVICE, BAD)}
    rows = [row for row in restaurant_rows() if tuple(row["text"].split()[:2]) in crossing]
    with pytest.raises(InputError, match=r"no text has partners"):
        restaurants(tmp_path, obedient(), rows)


def test_sentences_about_restaurants_count_where_all_aspects_agree(tmp_path):
    def row(text, *aspects):
        pairs = [{"aspect": kind, "polarity": mood} for kind, mood in aspects]
        return {"text": text, "aspects": pairs}

    rows = [
        row("both of the food", ("FOOD#QUALITY", "positive"), ("FOOD#PRICES", "positive")),
        row("food and staff", ("FOOD#QUALITY", "positive"), ("SERVICE#GENERAL", "positive")),
        row("good and bad food", ("FOOD#QUALITY", "positive"), ("FOOD#PRICES", "negative")),
    ]
    encoder = BlindEncoder()
    restaurants(tmp_path, encoder, [*restaurant_rows(per_cell=2), *rows])
    assert encoder.calls[0][0][12:] == ["both of the food"]
    pool = load_texts(tmp_path, LABELLED["restaurants"])
    assert pool[-1].labels == ("food", "positive")
