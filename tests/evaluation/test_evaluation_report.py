from dataclasses import replace

import numpy as np
import pytest

from retriever.core.errors import OutputError, UsageError
from retriever.evaluation.run.report import check_report, markdown, write_report
from retriever.evaluation.run.results import Evaluation
from retriever.evaluation.scores import Score, mean_score

HITS = np.array([1.0, 0.0, 1.0, 1.0] * 25)


def evaluation(name, hits, suite="awareness"):
    """One suite: a share times 100, a share from 0 to 1, a detail, and a figure without an interval."""
    return Evaluation(
        suite=suite,
        encoder={"name": name, "fingerprint": name.ljust(64, "0"), "pooling": "daap", "steps": None, "look_ahead": 8},
        scores=[
            mean_score("triplets", "success", hits, seed=0, scale=100, headline=True, note="two criteria | both"),
            mean_score("wordings", "Delta_ci", hits, seed=0, headline=True),
            mean_score("triplets", "detail", hits, seed=0, scale=100),
            Score("speed", "queries/s", 12.0, 12.0, 12.0, 3),
        ],
        seconds={"triplets": 3.0, "wordings": 1.0},
        seed=7,
        limit=100,
        data={},
        command="retriever eval awareness",
        date="2026-01-01T00:00:00",
        machine={"processor": "a processor", "cores": 2, "accelerator": None},
        versions={"python": "3.11", "retriever": "0.1.0"},
        notes=["2 texts were cut."],
    )


OURS, THEIRS = evaluation("ours", HITS), evaluation("theirs", HITS[::-1] * 0)


def test_the_report_says_what_was_measured_and_how():
    text = markdown([OURS], picture="scores.svg")
    for part in (
        "# Evaluation of ours, daap, look-ahead 8",
        f"fingerprint `{'ours'.ljust(64, '0')}`",
        "`retriever eval awareness`",
        "a processor, 2 cores",
        "seed 7; limit 100",
        "2026-01-01",
        "python 3.11",
        "](scores.svg)",
        "## awareness",
        "Mean of the headline scores 37.88; 4 s of work.",
        "- triplets, success: two criteria | both",
        "- ours, daap, look-ahead 8: 2 texts were cut.",
    ):
        assert part in text


def test_a_table_has_value_interval_and_items():
    low, high = np.percentile(OURS.scores[0].resampled, [2.5, 97.5])
    lines = markdown([OURS]).splitlines()
    assert f"| **triplets** | **success** | **75.00** | [{low:.2f}, {high:.2f}] | 100 |" in lines
    assert "| speed | queries/s | 12.00 |  | 3 |" in lines
    assert any(line.startswith("| **wordings** | **Delta_ci** | **0.750** | [0.6") for line in lines)


def test_two_encoders_stand_side_by_side_with_what_is_certain():
    lines = markdown([OURS], [THEIRS]).splitlines()
    [share] = [line for line in lines if "success** |" in line]
    cells = [cell.strip() for cell in share.strip("|").split("|")]
    assert (cells[2][:5], cells[3][:5], cells[4][:6]) == ("75.00", "0.000", "+75.00")
    assert cells[5:] == ["better", "100"]
    assert [line for line in markdown([THEIRS], [OURS]).splitlines() if "| worse |" in line]
    assert [line for line in markdown([OURS], [OURS]).splitlines() if "success** |" in line and "| open |" in line]
    assert [line for line in lines if line.startswith("| speed") and "| not resampled |" in line]


def test_a_cell_cannot_end_its_row_early():
    forged = replace(OURS, scores=[replace(OURS.scores[0], task="a | b\nc")])
    assert "| **a \\| b c** |" in markdown([forged])


@pytest.mark.parametrize("theirs", [[], [THEIRS]], ids=["one", "two"])
def test_the_picture_is_the_same_every_time_and_holds_every_headline(tmp_path, theirs):
    drawn = []
    for name in ("a.md", "b.md"):
        write_report(tmp_path / name, [OURS], theirs)
        drawn.append((tmp_path / name).with_suffix(".svg").read_bytes())
    assert drawn[0] == drawn[1]
    assert b"<svg" in drawn[0]
    assert b"<dc:date>" not in drawn[0]
    assert (tmp_path / "a.md").read_text() == markdown([OURS], theirs, picture="a.svg")
    colours = [colour in drawn[0].lower() for colour in (b"#0072b2", b"#e69f00")]
    assert colours == [True, bool(theirs)]


def test_a_suite_that_runs_to_1_says_so_and_a_score_of_zero_does_not_change_the_scale():
    from retriever.evaluation.run.report import _panels

    nothing = mean_score("triplets", "lowest", HITS * 0, seed=0, scale=100, headline=True)
    shares = replace(OURS, suite="robustness", scores=[OURS.scores[1]])
    panels = _panels([replace(OURS, scores=[OURS.scores[0], nothing]), shares], [])
    assert {title: [label for label, _ in rows] for title, rows in panels.items()} == {
        "awareness": ["triplets: success", "triplets: lowest"],
        "robustness (0 to 1)": ["wordings: Delta_ci"],
    }


def test_bars_of_nothing_start_at_the_left(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    limits = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: limits.extend(one.get_xlim() for one in self.axes))
    nothing = mean_score("triplets", "success", HITS * 0, seed=0, scale=100, headline=True)
    write_report(tmp_path / "report.md", [replace(OURS, scores=[nothing])])
    assert limits == [(0, 1)]


def test_a_report_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"report.txt is not a .md file"):
        check_report(tmp_path / "report.txt")
    with pytest.raises(OutputError, match="cannot be written"):
        check_report(tmp_path / "no" / "report.md")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"written: Not a directory\. Choose another --report\."):
        check_report(tmp_path / "file" / "report.md")
    with pytest.raises(UsageError, match="no headline"):
        write_report(tmp_path / "report.md", [replace(OURS, scores=OURS.scores[2:])])
