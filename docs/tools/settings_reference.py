"""Writes the table of `finetune --config` in docs/models.md from the settings' docstrings.

``python docs/tools/settings_reference.py docs/models.md`` puts it between the page's two marks.
"""

import json
import re
import sys
from collections import defaultdict
from dataclasses import fields
from enum import StrEnum
from inspect import getdoc
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from retriever.evaluation.run.report import table
from retriever.training.config import FinetuneConfig, default_config
from retriever.training.methods import DEFAULT, LANGUAGE, METHODS
from retriever.training.objectives.distillation import FusionSettings, SimilaritySettings

BEGIN = "<!-- made by docs/tools/settings_reference.py -->"
END = "<!-- end -->"
_MANY_ROWS = 10_000
_FURTHER = {f"{name} on a trained base": name for name in (DEFAULT, LANGUAGE)}
_BY_ROWS = {("loop", "epochs"): "1 to 4, the more the fewer the rows"}
_OFF = {"similarity": SimilaritySettings, "fusion": FusionSettings}


def settings_table() -> str:
    """Return the table of all settings as Markdown: section, key, default, meaning."""
    rows = []
    for section, cases in _sections():
        for kind in dict.fromkeys(type(one) for one in cases.values()):
            of_kind = {label: one for label, one in cases.items() if type(one) is kind}
            place = f"`{section}`, {next(iter(of_kind))}" if section == "objective" else f"`{section}`"
            rows += [[place, *row] for row in _rows(section, kind, of_kind)]
    return "\n".join(table(["section", "key", "default", "meaning"], rows))


def with_table(page: str) -> str:
    """Return a page with the table between its marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{settings_table()}\n{END}{rest.partition(END)[2]}"


def _sections() -> list[tuple[str, dict[str, Any]]]:
    """Return every section with its settings by method; one that is off has those that it begins with."""
    configs = {name: default_config(method, rows=_MANY_ROWS) for name, method in METHODS.items()}
    for label, name in _FURTHER.items():
        configs[label] = default_config(METHODS[name], rows=_MANY_ROWS, continued=True)
    names = [one.name for one in fields(FinetuneConfig) if one.name != "method"]
    return [(name, {label: getattr(one, name) or _OFF[name]() for label, one in configs.items()}) for name in names]


def _rows(section: str, kind: type, cases: dict[str, Any]) -> list[list[str]]:
    """Return key, default and meaning of every setting of one kind."""
    meant, hints = _meanings(kind), get_type_hints(kind)
    found = []
    for key in (one.name for one in fields(kind)):
        default = _BY_ROWS.get((section, key)) or _default({label: getattr(one, key) for label, one in cases.items()})
        found.append([f"`{key}`", default, meant[key] + _choices(hints[key])])
    return found


def _meanings(kind: type) -> dict[str, str]:
    """Return what a dataclass's docstring says of every attribute, each in one line."""
    attributes = (getdoc(kind) or "").partition("Attributes:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE)
    return {name: " ".join(text.replace("``", "`").split()) for name, text in found}


def _default(values: dict[str, Any]) -> str:
    """Return the default; where methods differ, each value with the methods that have it."""
    labels: dict[str, list[str]] = defaultdict(list)
    for label, value in values.items():
        if label not in _FURTHER or value != values[_FURTHER[label]]:
            labels["none" if value is None else f"`{json.dumps(value)}`"].append(label)
    commonest, *others = sorted(labels, key=lambda value: -len(labels[value]))
    named = [f"{value} ({', '.join(labels[value])})" for value in others]
    return "; ".join([commonest if len(others) < 2 else f"{commonest} ({', '.join(labels[commonest])})", *named])


def _choices(hint: Any) -> str:
    """Return the values that a key can have, where they are names, as a sentence."""
    kinds = [one for one in get_args(hint) if get_origin(one) is Literal] if get_origin(hint) is tuple else [hint]
    names = [value for kind in kinds for value in (get_args(kind) if get_origin(kind) is Literal else _members(kind))]
    return f" Known: {', '.join(f'`{name}`' for name in names)}." if names else ""


def _members(kind: Any) -> list[str]:
    return [str(one) for one in kind] if isinstance(kind, type) and issubclass(kind, StrEnum) else []


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(with_table(target.read_text(encoding="utf-8")), encoding="utf-8")
