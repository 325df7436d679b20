import math
import re
from dataclasses import replace

import pytest

from retriever.core.errors import InputError, UsageError
from retriever.training.adapters import AdapterSettings
from retriever.training.config import DataSettings, default_config, read_config
from retriever.training.loop import LoopSettings
from retriever.training.methods import METHODS
from retriever.training.negatives import MiningOptions
from retriever.training.objectives.base import BatchSettings
from retriever.training.objectives.dicl import DiclSettings
from retriever.training.objectives.distillation import FusionSettings, SimilaritySettings
from retriever.training.objectives.gircse import GircseSettings
from retriever.training.objectives.inbedder import InBedderSettings
from retriever.training.objectives.instemb import InstEmbSettings
from retriever.training.objectives.instructor import InstructorSettings

OBJECTIVES = {
    "instructor": InstructorSettings,
    "instemb": InstEmbSettings,
    "gircse": GircseSettings,
    "inbedder": InBedderSettings,
    "dicl": DiclSettings,
}


@pytest.fixture
def read(tmp_path):
    """Read settings from the text of a file."""

    def from_text(text, method=None, *, rows=200):
        path = tmp_path / "tune.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_config(path, method, rows=rows)

    return from_text


def test_every_method_has_its_own_objective_and_only_instemb_look_ahead_tokens():
    assert {name: type(default_config(method, rows=200).objective) for name, method in METHODS.items()} == OBJECTIVES
    assert [bool(default_config(method, rows=200).adapter.look_ahead) for method in METHODS.values()] == [
        name == "instemb" for name in METHODS
    ]
    assert read_config(None, None, rows=200) == default_config(METHODS["instructor"], rows=200)
    assert read_config(None, "dicl", rows=200) == default_config(METHODS["dicl"], rows=200)


def test_a_trained_model_learns_more_slowly_and_keeps_its_own_similarities():
    fresh, more = (default_config(METHODS["instemb"], rows=200, continued=one) for one in (False, True))
    assert fresh.similarity is None
    assert (more.similarity.teacher, more.similarity.weight > 0) == ("base", True)
    assert more.loop.learning_rate < fresh.loop.learning_rate
    assert replace(more, similarity=None, loop=fresh.loop) == fresh
    assert default_config(METHODS["gircse"], rows=200, continued=True) == default_config(METHODS["gircse"], rows=200)
    asked = []
    assert read_config(None, "instemb", rows=200, continued=lambda method: bool(asked.append(method)) or True) == more
    assert asked == [METHODS["instemb"]]


@pytest.mark.parametrize(("rows", "epochs"), [(20, 4), (250, 4), (600, 3), (1499, 2), (1500, 1), (200_000, 1)])
def test_few_rows_are_read_more_often(rows, epochs):
    assert default_config(METHODS["gircse"], rows=rows).loop.epochs == epochs


def test_what_a_file_says_takes_the_place_of_defaults_and_nothing_else(read):
    config = read('[loop]\nlearning_rate = 1\n[adapter]\nkind = "layers"\nprojections = ["q_proj"]\n', rows=400)
    default = default_config(METHODS["instructor"], rows=400)
    assert config.loop == replace(default.loop, learning_rate=1.0)
    assert config.adapter == replace(default.adapter, kind="layers", projections=("q_proj",))
    assert replace(config, loop=default.loop, adapter=default.adapter) == default


def test_a_file_can_name_the_method_and_switch_sections_on(read):
    config = read('method = "gircse"\n[objective]\nsteps = 3\n[similarity]\n[fusion]\nnew_weight = 0.4\n')
    assert (config.method.name, config.objective) == ("gircse", GircseSettings(steps=3))
    assert (config.similarity, config.fusion) == (SimilaritySettings(), FusionSettings(new_weight=0.4))
    assert read('method = "dicl"\n', "dicl").method is METHODS["dicl"]


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_what_is_written_is_read_back_as_the_very_settings(read, method):
    default = default_config(method, rows=200)
    config = replace(
        default,
        adapter=replace(default.adapter, projections=("q_proj", 'odd "name"'), layers=2, dropout=0.1),
        loop=replace(default.loop, learning_rate=1e-5, max_steps=7, decay="none"),
        data=DataSettings(held_out=0.25, seed=3),
        similarity=SimilaritySettings(weight=0.5),
        fusion=FusionSettings(),
    )
    for one in (default, config):
        assert read(one.to_toml(), rows=9999) == one
    assert config.to_json()["adapter"]["projections"] == ["q_proj", 'odd "name"']


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[looop]\n", ["no section [looop]", "'loop'"]),
        ("[loop]\nlearning_rat = 1.0\n", ["[loop]: there is no key 'learning_rat'", "'learning_rate'"]),
        ("[objective]\nsteps = 3\n", ["[objective]: there is no key 'steps'"]),
        ('[loop]\nlearning_rate = "high"\n', ["[loop]: learning_rate is 'high'", "valid number"]),
        ("[adapter]\nrank = true\n", ["[adapter]: rank is True", "valid integer"]),
        ("[adapter]\nrank = 2.5\n", ["[adapter]: rank is 2.5", "integer"]),
        ("[loop]\nepochs = 2024-01-01\n", ["[loop]: epochs is datetime.date(2024, 1, 1)"]),
        (
            'method = "instemb"\n[objective]\ndistillation = ["kl", "lk"]\n',
            ["[objective]: distillation is ['kl', 'lk']", "'mse', 'kl' or"],
        ),
        ("[loop]\nlearning_rate = nan\n", ["[loop]: learning_rate is nan; it should be"]),
        ("[data]\nheld_out = 1.0\n", ["[data]: held_out is 1.0; it should be less than 1"]),
        ("[batch]\ntexts = 1\n", ["[batch]: texts is 1; it should be greater than or equal to 2"]),
        ("[fusion]\nweight = 1.0\n", ["[fusion]: there is no key 'weight'", "'new_weight'"]),
        ("loop = 3\n", ["loop is a section, not a value"]),
        ('method = "instamb"\n', ["the method 'instamb' is not known", "'instemb'"]),
        ("[loop\n", ["is no TOML"]),
        (b"[loop]\n\xff\n", ["line 2 is not UTF-8"]),
    ],
)
def test_mistakes_are_named_with_file_section_and_key(read, text, parts):
    with pytest.raises((UsageError, InputError)) as caught:
        read(text)
    assert "tune.toml" in caught.value.message
    assert [part for part in parts if part not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (AdapterSettings, [("kind", "all"), ("rank", 0), ("alpha", 0), ("dropout", 1.0), ("look_ahead", -1)]),
        (LoopSettings, [("learning_rate", 0), ("learning_rate", math.nan), ("learning_rate", math.inf), ("epochs", 0)]),
        (LoopSettings, [("max_steps", 0), ("warmup", 2), ("decay", "cosine"), ("max_grad_norm", 0)]),
        (BatchSettings, [("texts", 1), ("questions", 0), ("held_tokens", 0)]),
        (DataSettings, [("held_out", 0.0), ("held_out", 1.0), ("seed", -1), ("max_text_tokens", 0), ("margin", 0.0)]),
        (MiningOptions, [("count", 0), ("margin", 0.0), ("margin", 1.1)]),
        (InstEmbSettings, [("temperature", 0.0), ("contrast", -1.0), ("form", "beside"), ("views", ("sideways",))]),
        (GircseSettings, [("steps", 0), ("temperature", 0.0), ("weight", -1.0), ("teacher_weight", -1.0)]),
        (GircseSettings, [("negatives", -1), ("weight", math.nan)]),
        (DiclSettings, [("margin", -0.1), ("margin", 2.5), ("temperature", 0.0), ("negatives", -1)]),
        (SimilaritySettings, [("weight", -0.1), ("texts", 1)]),
        (FusionSettings, [("new_weight", 1.5), ("new_weight", -0.5)]),
    ],
)
def test_a_value_out_of_bounds_is_named(kind, wrong):
    for name, value in wrong:
        with pytest.raises(UsageError, match=rf"^{name} is {re.escape(repr(value))}; it should be "):
            kind(**{name: value})


def test_a_file_that_is_far_too_large_is_refused_at_once(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text("[loop]\nseed = " + "[" * 300_000)
    with pytest.raises(InputError, match=r"settings\.toml has more than 32768 bytes"):
        read_config(path, None, rows=1)


def test_a_file_for_another_method_and_a_missing_file_are_refused(read, tmp_path):
    with pytest.raises(UsageError, match=r"tune\.toml is for the method dicl, not gircse"):
        read('method = "dicl"\n', "gircse")
    with pytest.raises(InputError, match=r"none\.toml cannot be read: No such file"):
        read_config(tmp_path / "none.toml", None, rows=1)


@pytest.mark.parametrize(("texts", "held"), [(20, 5), (147, 37), (300, 40), (1000, 100), (20_000, 1000)])
def test_a_tenth_is_held_out_of_few_texts_more_and_of_many_at_most_a_thousand(texts, held):
    assert round(DataSettings().share(texts) * texts) == held
    assert math.isclose(DataSettings(held_out=0.5).share(texts), 0.5)
