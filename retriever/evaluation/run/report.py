"""An evaluation for people: Markdown with every figure, and a picture of the headline scores beside it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from retriever.core.errors import UsageError
from retriever.core.paths import writing
from retriever.core.text import shortened
from retriever.evaluation.run.results import EncoderComparison, Evaluation, compare
from retriever.evaluation.scores import LEVEL, RESAMPLES, Score

ENCODER_COLOURS = ("#0072B2", "#E69F00")
"""Blue and orange of Okabe and Ito's palette, told apart with any colour vision and in grey."""

WHISKERS = {"fmt": "none", "ecolor": "#333333", "elinewidth": 1, "capsize": 2.5, "zorder": 3}
"""The look of an interval."""

_SCORE_INCHES = 0.38  # in the picture
_LABEL_CHARACTERS = 46


def check_report(path: Path) -> None:
    """Refuse a report that could not be written, before any work is spent on it.

    Raises:
        UsageError: it is not a Markdown file.
        OutputError: its folder does not exist.
    """
    if path.suffix.lower() != ".md":
        raise UsageError(f"{path} is not a .md file.", hint="The picture goes beside it, as .svg.")
    with writing(path, "--report"):
        next(path.parent.iterdir(), None)


def write_report(path: Path, ours: Sequence[Evaluation], theirs: Sequence[Evaluation] = ()) -> None:
    """Write the Markdown to ``path``, which ends in ``.md``, and the picture beside it as SVG.

    Evaluations are one a suite, those of another encoder in the same order.

    Raises:
        UsageError: it is not a Markdown file.
        OutputError: it cannot be written.
    """
    check_report(path)
    picture = path.with_suffix(".svg")
    with writing(path, "--report"):
        draw(picture, ours, theirs)
        path.write_text(markdown(ours, theirs, picture=picture.name), encoding="utf-8")


def markdown(ours: Sequence[Evaluation], theirs: Sequence[Evaluation] = (), *, picture: str = "") -> str:
    """Return the report: what was measured and how, then a table a suite, with paired differences where there are two.

    Arguments as for `write_report`; ``picture`` is the name of the one to show, empty for none.
    """
    first = ours[0]
    names = [first.name, *(evaluation.name for evaluation in theirs[:1])]
    lines = [f"# Evaluation of {' and '.join(names)}", "", *_facts(first, theirs[0] if theirs else None), ""]
    if picture:
        lines += [f"![Headline scores with {LEVEL:.0%} intervals]({picture})", ""]
    lines += [
        f"An interval is the percentile bootstrap interval of {LEVEL:.0%} over items, from {RESAMPLES} resamples. "
        "A headline score (bold) enters the mean and the picture.",
        "",
    ]
    for number, evaluation in enumerate(ours):
        lines += [f"## {evaluation.suite}", ""]
        if theirs:
            lines += comparison_table(compare(evaluation, theirs[number]), names)
        else:
            lines += score_table(evaluation.scores)
        lines += ["", *_suite_facts(evaluation), ""]
        lines += _notes([evaluation, *theirs[number : number + 1]])
    return "\n".join(lines).rstrip() + "\n"


def score_table(scores: Sequence[Score]) -> list[str]:
    """Return the lines of a Markdown table of scores."""
    rows = [
        [
            _bold(score.task, score),
            _bold(score.metric, score),
            _bold(number(score.value), score),
            interval(score),
            str(score.items),
        ]
        for score in scores
    ]
    return table(["task", "metric", "value", "interval", "items"], rows)


def comparison_table(pairs: Sequence[EncoderComparison], names: Sequence[str]) -> list[str]:
    """Return the lines of a Markdown table of two encoders."""
    rows = [
        [
            _bold(pair.ours.task, pair.ours),
            _bold(pair.ours.metric, pair.ours),
            f"{number(pair.ours.value)} {interval(pair.ours)}",
            f"{number(pair.theirs.value)} {interval(pair.theirs)}",
            f"{pair.difference.value:+.2f} [{pair.difference.low:+.2f}, {pair.difference.high:+.2f}]",
            verdict(pair),
            str(pair.ours.items),
        ]
        for pair in pairs
    ]
    return table(["task", "metric", *names, "difference", "certain", "items"], rows)


def verdict(pair: EncoderComparison) -> str:
    """Return which of two encoders is better, or that it is open: the paired interval holds zero."""
    if not pair.ours.resampled.size:
        return "not resampled"
    if not pair.difference.certain:
        return "open"
    return "better" if pair.difference.value > 0 else "worse"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table; what would end a cell early is escaped."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in [header, *rows]]
    cells.insert(1, ["---"] * len(header))
    return [f"| {' | '.join(row)} |" for row in cells]


def number(value: float) -> str:
    """Return a value with the digits it deserves: two, and three below one."""
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def ranged(value: float, low: float, high: float) -> str:
    """Return a value with its interval behind it."""
    return f"{number(value)} [{number(low)}, {number(high)}]"


def interval(score: Score) -> str:
    """Return a score's interval, empty where there is none."""
    return f"[{number(score.low)}, {number(score.high)}]" if score.resampled.size else ""


def draw(path: Path, ours: Sequence[Evaluation], theirs: Sequence[Evaluation] = ()) -> None:
    """Write an SVG with a bar a headline score, whiskers for the intervals, and two encoders side by side.

    A suite has a panel. The same scores give the same bytes.
    """
    panels = _panels(ours, theirs)
    heights = [max(1, len(rows)) * (2 if theirs else 1) + 1.6 for rows in panels.values()]
    with svg_figure(path, (8, _SCORE_INCHES * sum(heights) + 0.9)) as figure:
        axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axis, (title, rows) in zip(axes, panels.items(), strict=True):
            _draw_panel(axis, title, rows)
        names = [evaluations[0].name for evaluations in (ours, theirs) if evaluations]
        if len(names) > 1:
            figure.legend(_bars(axes[0]), names, loc="outside upper center", ncols=len(names), frameon=False)
        else:
            figure.suptitle(names[0], fontsize=10)


@contextmanager
def svg_figure(path: Path, size: tuple[float, float]) -> Iterator[Any]:
    """Give a matplotlib figure of so many inches, which is written as SVG at the block's end, each time the same."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "retriever", "font.size": 9, "axes.titlesize": 10, "svg.fonttype": "path"}):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def whiskers(scores: Sequence[Score]) -> list[list[float]]:
    """Return how far the intervals of scores reach below and above their values, never less than 0."""
    return [
        [max(0.0, score.value - score.low) for score in scores],
        [max(0.0, score.high - score.value) for score in scores],
    ]


_Rows = list[tuple[str, list[Score]]]


def _panels(ours: Sequence[Evaluation], theirs: Sequence[Evaluation]) -> Mapping[str, _Rows]:
    """Return the rows of every panel by its title: a label, and the score of every encoder."""
    panels: dict[str, _Rows] = {}
    for place, evaluation in enumerate(ours):
        others = {(score.task, score.metric): score for score in theirs[place].scores} if theirs else {}
        to_one = all(abs(score.value) <= 1 for score in [*evaluation.scores, *others.values()])
        title = f"{evaluation.suite} (0 to 1)" if to_one else evaluation.suite
        for score in evaluation.scores:
            if not score.headline or (theirs and (score.task, score.metric) not in others):
                continue
            both = [score, *([others[score.task, score.metric]] if theirs else [])]
            panels.setdefault(title, []).append((shortened(f"{score.task}: {score.metric}", _LABEL_CHARACTERS), both))
    if not panels:
        raise UsageError("There is no headline score to draw.", hint="Leave out --report, or --task.")
    return panels


def _draw_panel(axis: Any, title: str, rows: _Rows) -> None:  # noqa: ANN401 - matplotlib's Axes
    encoders = len(rows[0][1])
    height = 0.8 / encoders
    for which in range(encoders):
        scores = [both[which] for _, both in rows]
        places = [place + (which - (encoders - 1) / 2) * height for place in range(len(rows))]
        values = [score.value for score in scores]
        axis.barh(places, values, height=height * 0.92, color=ENCODER_COLOURS[which], zorder=2)
        axis.errorbar(values, places, xerr=whiskers(scores), **WHISKERS)
        for score, place in zip(scores, places, strict=True):
            end = max(score.high, score.value, 0.0)
            axis.annotate(
                number(score.value), (end, place), (4, 0), textcoords="offset points", va="center", fontsize=8
            )
    axis.set_yticks(range(len(rows)), [label for label, _ in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_title(title, loc="left", fontweight="bold")
    axis.axvline(0, color="#333333", linewidth=0.8, zorder=3)
    ends = [end for _, both in rows for score in both for end in (score.low, score.high, score.value)]
    axis.set_xlim(1.12 * min(0, *ends), 1.12 * max(0, *ends) or 1)
    axis.grid(axis="x", color="#DDDDDD", linewidth=0.6, zorder=0)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(axis="y", length=0)


def _bars(axis: Any) -> list[Any]:  # noqa: ANN401 - matplotlib's Axes
    """Return a panel's bar containers, one an encoder."""
    from matplotlib.container import BarContainer

    return [container for container in axis.containers if isinstance(container, BarContainer)]


def _facts(ours: Evaluation, theirs: Evaluation | None) -> list[str]:
    """List the facts that hold for the whole report, a line each."""
    accelerator = ours.machine.get("accelerator")
    on = f"{ours.machine.get('processor')}, {ours.machine.get('cores')} cores" + (
        f", {accelerator}" if accelerator else ""
    )
    listed = [evaluation for evaluation in (ours, theirs) if evaluation is not None and evaluation.encoder]
    return [
        *(
            f"- encoder: {evaluation.name}; fingerprint `{evaluation.encoder.get('fingerprint')}`"
            for evaluation in listed
        ),
        f"- command: `{ours.command or 'not recorded'}`",
        f"- date: {ours.date}",
        f"- machine: {on}",
        f"- versions: {', '.join(f'{name} {ours.versions[name]}' for name in ours.versions if name != 'command')}",
        f"- seed {ours.seed}; limit {ours.limit or 'none'}",
    ]


def _suite_facts(evaluation: Evaluation) -> list[str]:
    from retriever.evaluation.suites import SUITES

    mean = "no headline score" if evaluation.mean is None else f"mean of the headline scores {number(evaluation.mean)}"
    lines = [f"{mean[0].upper()}{mean[1:]}; {sum(evaluation.seconds.values()):.0f} s of work."]
    known = [task for task in SUITES.get(evaluation.suite, ()) if task.name in evaluation.seconds]
    return [*lines, "", *(f"- {task.name}: {task.summary}." for task in known)]


def _notes(evaluations: Sequence[Evaluation]) -> list[str]:
    lines = [f"- {score.task}, {score.metric}: {score.note}" for score in evaluations[0].scores if score.note]
    lines += [f"- {evaluation.name}: {note}" for evaluation in evaluations for note in evaluation.notes]
    return ["Notes:", "", *lines, ""] if lines else []


def _bold(text: str, score: Score) -> str:
    return f"**{text}**" if score.headline else text
