import pickle

import numpy as np
import pytest
from api_fakes import AnyEncoder
from index_fakes import MOOD, PRODUCT
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from retriever.core.errors import UsageError
from retriever.integrations import sklearn as integration
from retriever.integrations.sklearn import RetrieverEncoder

TEXTS = [f"a {word} {n}" for n, word in enumerate(["kettle love", "toy hate", "lamp calm"] * 8)]


@pytest.fixture(autouse=True)
def loads(monkeypatch):
    """Count what is loaded."""
    loaded = []

    def load(name, *, device):
        loaded.append((name, device))
        return AnyEncoder(name)

    monkeypatch.setattr(integration, "load_encoder", load)
    return loaded


def test_it_gives_the_encoders_vectors(loads):
    transformer = RetrieverEncoder(instruction=MOOD)
    found = transformer.fit_transform(TEXTS)
    np.testing.assert_array_equal(found, AnyEncoder().vectors(TEXTS, MOOD))
    assert (transformer.n_features_out_, found.dtype) == (16, np.float32)
    for given in (np.array(TEXTS), np.array(TEXTS, dtype=object)[:, None], tuple(TEXTS), iter(TEXTS)):
        np.testing.assert_array_equal(transformer.transform(given), found)
    assert loads == [("default", "auto")]  # once
    assert transformer.transform([]).shape == (0, 16)


def test_it_classifies_selects_and_is_cloned():
    labels = [text.split()[1] for text in TEXTS]
    pipeline = make_pipeline(RetrieverEncoder(PRODUCT), LogisticRegression())
    assert cross_val_score(pipeline, TEXTS, labels, cv=4).tolist() == [1.0] * 4
    moods = ["sad" if n % 2 else "glad" for n in range(24)]
    texts = [f"a thing {mood}" for mood in moods]
    search = GridSearchCV(pipeline, {"retrieverencoder__instruction": [PRODUCT, MOOD]}, cv=3).fit(texts, moods)
    assert search.best_params_ == {"retrieverencoder__instruction": MOOD}
    assert clone(RetrieverEncoder(MOOD, device="cpu")).get_params() == {
        "instruction": MOOD,
        "model": "default",
        "device": "cpu",
        "batch_size": None,
    }


def test_a_pickle_holds_the_settings_and_no_model(loads):
    transformer = RetrieverEncoder(MOOD).fit(TEXTS)
    stored = pickle.dumps(transformer)
    assert len(stored) < 1000
    again = pickle.loads(stored)
    np.testing.assert_array_equal(again.transform(TEXTS), transformer.transform(TEXTS))
    assert len(loads) == 2


def test_another_model_is_loaded_when_its_name_changes(loads):
    transformer = RetrieverEncoder().fit(TEXTS)
    transformer.set_params(model="other").fit(TEXTS)
    assert loads == [("default", "auto"), ("other", "auto")]
    assert transformer.fingerprint_.startswith("other")


def test_its_columns_have_names():
    pytest.importorskip("pandas")
    framed = RetrieverEncoder().set_output(transform="pandas").fit_transform(TEXTS)
    assert list(framed.columns) == [f"retriever{n}" for n in range(16)]


@pytest.mark.parametrize(
    "given", ["one text", [1.0, 2.0], ["a", None], np.zeros((3, 2)), [["a", "b"]], ["\ud800"]], ids=repr
)
def test_what_is_no_text_is_said(given):
    with pytest.raises(UsageError):
        RetrieverEncoder().fit(given)


APPLY = (  # those that need no table of numbers; scikit-learn's own list ends after the first where there is none
    "check_estimator_cloneable check_estimator_tags_renamed check_valid_tag_types check_estimator_repr "
    "check_no_attributes_set_in_init check_do_not_raise_errors_in_init_or_set_params check_mixin_order "
    "check_parameters_default_constructible check_get_params_invariance check_set_params "
    "check_get_feature_names_out_error"
).split()


@pytest.mark.parametrize("name", APPLY)
def test_scikit_learns_own_checks_pass(name):
    getattr(estimator_checks, name)("RetrieverEncoder", RetrieverEncoder())


def test_the_model_is_asked_for_before_vectors_are():
    with pytest.raises(NotFittedError):
        RetrieverEncoder().transform(TEXTS)
