import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOWN = [path for path in sorted((ROOT / "retriever").rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", SHOWN, ids=[path.relative_to(ROOT).as_posix() for path in SHOWN])
def test_every_example_in_a_docstring_gives_what_stands_below_it(path):
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0
