from pathlib import Path

from evaluation_table import ROWS, Results, suite_table, with_tables

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_tables_of_what_was_measured():
    page = (ROOT / "docs/evaluation.md").read_text(encoding="utf-8")
    results = Results.read(ROOT / "benchmarks/results/evaluation.json.gz")
    assert page == with_tables(page, results), "python benchmarks/evaluation_table.py DATA --write"


def test_a_table_has_headline_scores_and_names_what_is_not_measured(tmp_path):
    score = {"task": "sts", "metric": "Spearman", "value": 50.0, "low": 40.0, "high": 60.0, "headline": True}
    other = {**score, "metric": "other", "headline": False}
    results = Results(tmp_path / "none", cells={ROWS[-1].name: {"generic": _evaluation([score, other])}})
    lines = suite_table(results, "generic")
    assert lines[0] == "| encoder | mean | sts: Spearman |"
    assert f"| {ROWS[-1].name}* | 50.00 | 50.00 [40.00, 60.00] |" in lines
    assert f"| {ROWS[0].name} | - | - |" in lines
    assert lines[-1].startswith(f"Not measured yet: {ROWS[0].name};")


def _evaluation(scores):
    return {"scores": scores, "limit": 100, "mean": 50.0}
