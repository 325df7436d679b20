"""Whatever a settings file holds, it gives settings or an error that names it."""

import pytest
from fuzzing import damages
from hypothesis import example, given, settings
from hypothesis import strategies as st

from retriever.core.errors import InputError, UsageError
from retriever.training.config import FinetuneConfig, default_config, read_config
from retriever.training.methods import METHODS

WHOLE = "\n".join(default_config(METHODS["instemb"], rows=200, continued=True).to_toml().splitlines()).encode()
SECTIONS = default_config(METHODS["instemb"], rows=200, continued=True).to_json()
KEYS = sorted({f"[{section}]\n{key}" for section in SECTIONS if section != "method" for key in SECTIONS[section]})
LONG = ["0x" + "f" * 5000, "9" * 5000, "9223372036854775808", "[" * 2000 + "]" * 2000]
SHORT = """1 -1 0 1e308 -0.5 inf nan true "" "\\u0000" [] [[]] {} {a=1} 1979-05-27 07:32:00 "base" [1,2]""".split()
VALUES = st.sampled_from([*LONG, *SHORT])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "tune.toml"


def read(path, data):
    path.write_bytes(data)
    try:
        found = read_config(path, None, rows=200)
    except (UsageError, InputError) as error:
        assert "tune.toml" in str(error)
        assert len(str(error)) < 2000
        return None
    assert isinstance(found, FinetuneConfig)
    path.write_text(found.to_toml())
    assert read_config(path, None, rows=200) == found
    return found


def test_the_settings_to_damage_are_whole(path):
    assert read(path, WHOLE) is not None


@given(st.sampled_from(KEYS), VALUES)
@settings(deadline=None)
def test_any_value_of_any_key(path, key, value):
    read(path, f"{key} = {value}\n".encode())


@given(damages(WHOLE))
@settings(deadline=None)
def test_damaged_settings(path, data):
    read(path, data)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
@example("method = ['instemb']")
@example("method = {}")
@example("method = 1979-05-27")
@example("loop = 1")
@example("a = " + "[" * 100_000)
@settings(deadline=None)
def test_any_text(path, text):
    read(path, text.encode())
