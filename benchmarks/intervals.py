"""How often the intervals of `retriever numbers` hold the truth, on simulated corpora of which it is known.

    python benchmarks/intervals.py --output benchmarks/results/intervals.json --page docs/numbers.md

A corpus has a size, a true share of the group, drawn from a band, and two distributions of stars, one of the group's
reviews and one of the others. Every setting is drawn so many times; two thirds of the reviews are of one product, where
the group is half as large again. What is counted goes through `retriever.clusters.numbers.count`, as for a user.
Another run draws corpora in which nothing differs, and counts how often a difference is called more than chance.
"""

import argparse
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from common import write

from retriever.clusters.groups import Groups
from retriever.clusters.numbers import Comparison, count
from retriever.core.types import Document

SIZES = (60, 300, 2000)
BANDS = ((0.03, 0.1), (0.1, 0.3), (0.3, 0.6))
STARS = {
    "mostly five": (0.05, 0.05, 0.10, 0.20, 0.60),
    "a complaint": (0.50, 0.25, 0.10, 0.10, 0.05),
    "all one star": (0.95, 0.05, 0.0, 0.0, 0.0),
    "love or hate": (0.35, 0.05, 0.05, 0.10, 0.45),
    "praise": (0.0, 0.0, 0.02, 0.18, 0.80),
}
PAIRS = (  # of the others, and of the group
    ("mostly five", "a complaint"),
    ("mostly five", "all one star"),
    ("mostly five", "mostly five"),
    ("love or hate", "praise"),
)
MORE = 1.5  # times as large as elsewhere the group is in one product
UNRATED = 0.05  # of the reviews
GROUPS, SEGMENTS = 10, 8  # of the corpora in which nothing differs
WANTED = (0.93, 0.97)

_PAGE = """# Do the intervals hold?

Written by `benchmarks/intervals.py`; not edited by hand.

What `retriever numbers` prints has 95 % intervals: Wilson's for a share, Newcombe's for a difference of shares, and for
the impact (mean stars without a group's reviews minus mean stars of all) the quantiles of the product of a Beta and a t
distribution (`clusters/arithmetic/intervals.py`). Here the truth is known: corpora are drawn from {settings} settings,
{corpora:,} from each, 5 % of the reviews without stars. The table says in how many of a hundred the interval holds the
true value, which is known to about {known:.1f} either way, of the means to {mean_known:.1f}. The difference is that of
the group's share in one product, where it is half as large again, and in the other.

| reviews | share in the lesser product | stars of the others, of the group | share | difference | impact |
|---|---|---|---|---|---|
{rows}

Between 93 and 97 are {inside} of the {settings} settings.

**Many comparisons.** Corpora of {groups} groups and {segments} segments in which nothing differs, {comparisons}
comparisons each, corrected by Holm's method: a difference is called more than chance in

{alarms}

of the corpora; 5 % were allowed. The test is Fisher's, which is exact and so never promises too much.
"""


@dataclass(frozen=True)
class Setting:
    """What a simulated corpus is drawn from."""

    size: int
    band: tuple[float, float]
    others: str
    group: str


def settings() -> list[Setting]:
    """Return every setting."""
    return [Setting(size, band, *pair) for size, band, pair in itertools.product(SIZES, BANDS, PAIRS)]


def simulate(setting: Setting, rng: np.random.Generator) -> dict[str, bool]:
    """Draw a corpus, count it, and return by number whether its interval holds the truth; what has none is left out."""
    elsewhere = float(rng.uniform(*setting.band))
    sold = rng.random(setting.size) < 2 / 3
    shares = np.where(sold, min(MORE * elsewhere, 1.0), elsewhere)
    inside = rng.random(setting.size) < shares
    levels = np.arange(1, 6)
    given = [rng.choice(levels, setting.size, p=STARS[name]) for name in (setting.others, setting.group)]
    stars = np.where(inside, given[1], given[0])
    rated = rng.random(setting.size) >= UNRATED
    found = count(
        _groups(inside[None]),
        [int(one) if has else None for one, has in zip(stars, rated, strict=True)],
        segments={"product": ["kettle" if one else "lamp" for one in sold]},
    )
    true_share = (2 * min(MORE * elsewhere, 1.0) + elsewhere) / 3
    gap = float((np.array(STARS[setting.others]) - np.array(STARS[setting.group])) @ levels)
    (compared,) = found.segments["product"]
    sign = 1 if compared.part == "kettle" else -1
    (group,) = found.groups
    true = {
        "share": (group.share, true_share),
        "difference": (compared.difference, sign * (min(MORE * elsewhere, 1.0) - elsewhere)),
        "impact": (group.impact, true_share * gap),
    }
    return {name: one.low - 1e-9 <= truth <= one.high + 1e-9 for name, (one, truth) in true.items() if one is not None}


def false_alarm(size: int, rng: np.random.Generator) -> bool:
    """Draw a corpus in which no segment differs, and return whether one is called different."""
    members = rng.integers(0, GROUPS, size)[None] == np.arange(GROUPS)[:, None]
    found = count(_groups(members), segments={"shop": rng.integers(0, SEGMENTS, size).tolist()})
    return any(map(_certain, found.segments["shop"]))


def measure(corpora: int, seed: int) -> dict[str, Any]:
    """Return how often the intervals of every setting held the truth, and of all together."""
    rows = []
    for number, setting in enumerate(settings()):
        rng = np.random.default_rng([seed, number])
        held = [simulate(setting, rng) for _ in range(corpora)]
        rows.append(
            {
                "size": setting.size,
                "band": setting.band,
                "others": setting.others,
                "group": setting.group,
                **{name: _rate(held, name) for name in ("share", "difference", "impact")},
                "without impact": sum("impact" not in one for one in held),
            }
        )
    alarms = {}
    for size in SIZES:
        rng = np.random.default_rng([seed, size, 1])
        alarms[str(size)] = round(sum(false_alarm(size, rng) for _ in range(corpora)) / corpora, 4)
    means = {name: round(float(np.mean([row[name] for row in rows])), 4) for name in ("share", "difference", "impact")}
    return {"corpora": corpora, "settings": rows, "mean": means, "false_alarms": alarms}


def page(found: dict[str, Any]) -> str:
    """Return the figures as a page of the documentation."""
    inside = {
        name: sum(WANTED[0] <= row[name] <= WANTED[1] for row in found["settings"])
        for name in ("share", "difference", "impact")
    }
    rows = [
        f"| {row['size']:,} | {row['band'][0]:.0%} to {row['band'][1]:.0%} | {row['others']}, {row['group']} | "
        f"{100 * row['share']:.1f} | {100 * row['difference']:.1f} | {100 * row['impact']:.1f} |"
        for row in found["settings"]
    ]
    means = " | ".join(f"**{100 * found['mean'][name]:.1f}**" for name in inside)
    alarms = ", ".join(f"{100 * rate:.1f} % ({int(size):,} reviews)" for size, rate in found["false_alarms"].items())
    return _PAGE.format(
        settings=len(rows),
        corpora=found["corpora"],
        known=_sampling(found["corpora"]),
        mean_known=_sampling(found["corpora"] * len(rows)),
        rows="\n".join([*rows, f"| **mean** | | | {means} |"]),
        inside="{}, {} and {}".format(*inside.values()),
        groups=GROUPS,
        segments=SEGMENTS,
        comparisons=GROUPS * SEGMENTS,
        alarms=alarms,
    )


def _groups(members: Any) -> Groups:  # noqa: ANN401 - (groups, n) of bools
    count, size = members.shape
    return Groups(_documents(size), range(count), [str(one) for one in range(count)], members, ~members.any(axis=0))


def _sampling(corpora: int) -> float:
    """Return how far, in percent, a rate of 95 % may lie from what so many corpora show, two standard errors."""
    return 200 * float(np.sqrt(0.95 * 0.05 / corpora))


@cache
def _documents(size: int) -> list[Document]:
    return [Document(str(row), "") for row in range(size)]


def _certain(one: Comparison) -> bool:
    return one.certain


def _rate(held: Sequence[dict[str, bool]], name: str) -> float:
    known: Iterable[bool] = [one[name] for one in held if name in one]
    return round(float(np.mean(list(known))), 4)


def main() -> None:
    """Parse the options, measure, and write JSON and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=int, default=1000, help="Drawn from every setting.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path, help="Write the figures as Markdown.")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    found = measure(options.corpora, options.seed)
    write("intervals", options, found)
    if options.page:
        options.page.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
