from pathlib import Path

from scale_tables import TABLES, filling, rates, with_tables

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_tables_of_what_was_measured():
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    assert page == with_tables(page), "python docs/tools/scale_tables.py docs/scale.md"
    assert all(f"<!-- {name} -->" in page for name in TABLES)


def test_hours_are_reviews_by_the_rate():
    row = next(line for line in filling().splitlines() if line.startswith("| 100,000,000 | base view"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[2:5] == [f"{rates()['plain']:.0f}", f"{1e8 / rates()['plain'] / 3600:,.0f}", "9"]
