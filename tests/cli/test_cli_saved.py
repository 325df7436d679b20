"""Commands that only read or edit a saved clustering: they load no model, and no library that only making one needs."""

import subprocess
import sys

import pytest

PRODUCT = "What product is it?"
HEAVY = "torch", "transformers", "sklearn", "scipy.stats", "faiss", "pandas", "pyarrow"
CODE = f"""
import sys
from retriever.cli.main import main
code = main(sys.argv[1:])
print([name for name in {HEAVY!r} if name in sys.modules], code)
"""


@pytest.fixture
def saved(indexed):
    """Run commands where ``products`` is saved: the clusters 1 kettle, 2 lamp, 3 toy."""
    made = indexed("cluster", "--instruction", PRODUCT, "-k", "3", "--by", "category", "--save", "products")
    assert made.code == 0
    return indexed


@pytest.mark.parametrize(
    "argv",
    [
        ("cluster", "--saved", "products", "--csv", "out.csv"),
        ("cluster", "--saved", "products", "--rename", "1=Kitchen", "--merge", "2,3", "--move", "r1=none"),
        ("report", "products", "--by", "category", "-o", "report.html"),
        ("report", "products", "--json"),
    ],
    ids=" ".join,
)
def test_what_is_saved_is_read_and_edited_without_a_model(saved, tmp_path, argv):
    done = subprocess.run([sys.executable, "-c", CODE, *argv], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "[] 0", done.stderr
