"""The model card: what a fine-tuned encoder is made from, how, how good it is, and what it is not good for."""

from collections.abc import Mapping
from typing import Any

from retriever.core.text import printable, shortened
from retriever.evaluation.run.report import ranged, table
from retriever.evaluation.scores import LEVEL, RESAMPLES
from retriever.training.run.report import FinetuneReport, Judgement

CURVES = "curves.svg"
CONFIG = "finetune.toml"
_SHOWN = 80  # characters of a text

_LIMITS = """\
- Measured on texts of the same files as it learned from, and on a small general set; elsewhere it may do worse.
- Questions unlike those it was trained on are answered as the base would at best.
- It repeats what the data says, mistakes and prejudices included.
- The licences of the data and of the backbone hold for it too; this card does not know them.
"""


def model_card(report: FinetuneReport, judgement: Judgement) -> str:
    """Return the card of a finished run as Markdown."""
    data = report.data
    files = [[one.name, str(one.rows), f"`{one.sha256 or 'not recorded'}`", one.mapping] for one in data.files]
    lines = [
        f"# {report.output.name}",
        "",
        f"An encoder for `retriever`: {report.config.method.name} on {report.base['backbone']}, fine-tuned from "
        f"{_base(report)}.",
        "",
        "## Scores",
        "",
        *_scores(judgement),
        "",
        judgement.verdict.sentence,
        "",
        f"Intervals are percentile bootstrap intervals of {LEVEL:.0%}, {RESAMPLES} resamples; that of a change is "
        "paired.",
        "",
        f"![Loss by step, and the scores before and after]({CURVES})",
        "",
        *_examples(judgement),
        "## Data",
        "",
        *table(["file", "rows", "SHA-256", "fields"], files),
        "",
        f"{len(data.train)} rows to learn from and {len(data.held_out)} held out, with no text on both sides; "
        f"{data.skipped} skipped; cut to what is read of them: {data.cut}.",
        "",
        "## Recipe",
        "",
        f"    {report.command or 'not recorded'}",
        "",
        f"Seed {report.config.data.seed}, {report.step} steps, {report.seconds:.0f} s. The settings (`{CONFIG}` can be "
        "given to `--config`):",
        "",
        "```toml",
        report.config.to_toml().rstrip(),
        "```",
        "",
        ", ".join(f"{name} {version}" for name, version in report.versions.items()),
        "",
        f"The saved vectors are at most {judgement.proof.to_trained:.2g} from the trained and "
        f"{judgement.proof.to_base:.2g} from those of the model that training began from.",
        "",
        "## Limits",
        "",
        _LIMITS,
    ]
    return "\n".join(lines)


def _examples(judgement: Judgement) -> list[str]:
    """Tabulate the first hits of searches of held-out rows, before and after; nothing where there are none."""
    rows = []
    for one in judgement.examples:
        asked = f" under {_code(one['instruction'])}" if one["instruction"] else ""
        found = [f"{'right' if first['right'] else 'wrong'}: {_code(first['text'])}" for first in _firsts(one)]
        rows.append([f"{_code(one['query'])}{asked}", _code(one["answer"]), *found])
    if not rows:
        return []
    held_out = "Searches of held-out rows, and what each finds first:"
    return ["## Examples", "", held_out, "", *table(["search", "answer", "before", "after"], rows), ""]


def _firsts(example: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [example[when][0] for when in ("before", "after")]


def _code(text: str) -> str:
    """Return a user's text as one line of code, which Markdown shows as it is; control characters become spaces."""
    plain = printable(text.replace("`", "'"))
    return f"`{shortened(' '.join(plain.split()), _SHOWN)}`"


def _base(report: FinetuneReport) -> str:
    name, spec = report.base["name"], report.base["spec"]
    return name if name == spec else f"{name} ({spec})"


def _scores(judgement: Judgement) -> list[str]:
    rows = []
    for change in judgement.changes:
        moved = change.difference
        rows.append(
            [
                f"{change.before.task}, {change.before.metric}",
                *(ranged(one.value, one.low, one.high) for one in (change.before, change.after)),
                f"{moved.value:+.2f} [{moved.low:+.2f}, {moved.high:+.2f}]",
                str(change.before.items),
            ]
        )
    return table(["score", "before", "after", "change", "items"], rows)
