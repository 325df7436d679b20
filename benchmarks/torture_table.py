"""The table that `torture` puts into docs/storage.md."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torture_tests import rows

BEGIN, END = "<!-- torture: begin -->", "<!-- torture: end -->"
VERDICTS = ("tried", "found", "harmless", "earlier", "hidden", "wrong", "crashed")
Parts = Mapping[str, Mapping[str, Any]]


def table(parts: Parts, names: Mapping[str, Sequence[str]], about: Mapping[str, Any]) -> str:
    """Return what was found as Markdown.

    Args:
        parts: what each part found, by ``kind: name``.
        names: of the parts, by kind.
        about: the machine.
    """
    packages = about["packages"]
    by_kind = {kind: {name: parts[f"{kind}: {name}"] for name in chosen} for kind, chosen in names.items()}
    faults, damage = by_kind["faults"] | by_kind["training"], by_kind["damage"] | by_kind["files"]
    ours, usual = list(by_kind["kills"].values()), list(by_kind["usual"].values())
    lost = sum(len(part["lost"]) for part in ours)
    lines = [
        f"Measured on {about['date'][:10]} with {about['cpu']}, {about['cores']} core{'s' * (about['cores'] > 1)} "
        f"beside other work (load average {about['load_average']:.0f}), Python {about['python']}, FAISS "
        f"{packages.get('faiss-gpu') or packages.get('faiss-cpu')}.",
        "",
        "| operation | changes of files | tried at | crashes and losses of power | failing writes | lost | seconds |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {name} | {part['changes']} | {_tried(part)} | {part['crashes']} | {part['failing_writes']} "
            f"| {len(part['lost'])} | {part['seconds']:.0f} |"
            for name, part in faults.items()
        ),
        "",
        "| damaged | tried | found | harmless | log ends earlier | found by `verify` alone | wrong | crashes |",
        "|---|---|---|---|---|---|---|---|",
        *(f"| {name} | {' | '.join(str(part[key]) for key in VERDICTS)} |" for name, part in damage.items()),
        "",
        *_limited(by_kind["damage"]),
        "| SIGKILL at a random time | killed | damaged afterwards | damaged after the same command again |",
        "|---|---|---|---|",
        f"| an index | {_sum(ours, 'killed')} | {lost} | {lost} |",
        f"| SQLite beside a FAISS file, the usual way | {_sum(usual, 'killed')} | {_sum(usual, 'after_kill')} "
        f"| {_sum(usual, 'left')} |",
        "",
        "| tests that draw examples | tests | examples | damaged files | failed | seconds | measured |",
        "|---|---|---|---|---|---|---|",
        *rows(by_kind["tests"]),
    ]
    return "\n".join(lines)


def put_into(page: Path, text: str) -> None:
    """Replace what stands between the two marks of a page."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def _tried(part: Mapping[str, Any]) -> str:
    return "all" if part["points"] > part["changes"] else str(part["points"])


def _limited(damage: Parts) -> list[str]:
    """Say how many damages of an index were tried where they were not all."""
    most = next((part["sizes"]["damages"] for part in damage.values() if part.get("sizes")), None)
    return (
        [f"Of the damages planned for an index, {most} for each kind of file were drawn and tried.", ""] if most else []
    )


def _sum(walks: Sequence[Mapping[str, Any]], key: str) -> int:
    return sum(walk.get(key, 0) for walk in walks)
