"""An index whose encoder is behind an endpoint on another machine: a page asks before that host gets texts."""

import pytest
from app_checks import click, settle, shown, whole
from app_fakes import REVIEWS, documents, load_encoder
from embedding_server import EmbeddingModel, serving_embeddings
from replay_server import forget_endpoints

from retriever.encoders import catalog
from retriever.encoders.answers import places
from retriever.workspace import Index

ALLOW = "Allow this host"
real_encoder = catalog.load_encoder


@pytest.fixture
def model(indexes, monkeypatch):
    """Give an endpoint whose host this person has not allowed for the index that it embedded."""
    made = EmbeddingModel()
    monkeypatch.setattr(places, "is_loopback", lambda host: False)
    monkeypatch.setenv(places.ALLOW_HTTP, "1")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr(
        catalog,
        "load_encoder",
        lambda name="default", **options: (real_encoder if name.startswith("http") else load_encoder)(name, **options),
    )
    with serving_embeddings(made) as url:
        made.host = url.split("/")[2]
        with Index(indexes / "made", encoder=load_encoder(), plain=real_encoder(f"http:{url}#tiny")) as index:
            index.teaching.allow(made.host)
            index.add(documents(REVIEWS))
        (indexes / "made").rename(indexes / "reviews")
        forget_endpoints()
        made.requests.clear()
        yield made
    forget_endpoints()


def agree(session):
    (button,) = [each for each in session.button if each.label == ALLOW]
    assert button.disabled
    (may,) = [each for each in session.checkbox if "may be sent" in each.label]
    return click(whole(may.check().run()), ALLOW)


def asked(session):
    return [each.label for each in session.button].count(ALLOW)


def test_a_search_goes_by_words_until_its_encoder_s_host_is_allowed_on_the_page(model, app, indexes):
    session = settle(app("search", q="lamp"))
    said = shown(session).replace("\\", "")
    assert f"is at {model.host}, another machine" in said
    assert f"Searched by words alone: Texts of this index would be sent to {model.host}. Allow that host" in said
    assert "language model cannot be asked" not in said
    assert model.requests == []
    session = settle(agree(session))
    assert "lamp" in model.texts
    assert "by meaning and words" in shown(session)
    assert not asked(session) and "by words alone" not in shown(session)
    with Index(indexes / "reviews") as index:
        assert [index.teaching.place(name).allowed for name in index.teaching.elsewhere()] == [True]


def test_a_search_by_meaning_that_was_refused_is_made_once_the_host_is_allowed(model, app):
    session = app("search", q="lamp", mode="dense")
    said = shown(session).replace("\\", "")
    assert f"Texts of this index would be sent to {model.host}" in said and "Allow that host on this page." in said
    session = settle(agree(session))
    assert "6 reviews. Found by meaning" in shown(session).replace("\\", "")
    assert "did not work" not in shown(session)


@pytest.mark.parametrize("page", ["corpus", "teach", "models"])
def test_every_page_asks_and_a_host_that_is_allowed_is_asked_about_no_more(model, app, indexes, page):
    assert asked(app(page)) == 1
    assert model.requests == []
    with Index(indexes / "reviews") as index:
        index.teaching.allow(model.host)
    assert not asked(app(page))
