"""The tests that draw thousands of examples, damaged files and searches, run by pytest and counted for `torture`."""

import base64
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FILES = {
    "state machine": "durability/test_durability_model.py",
    "readers beside a writer": "durability/test_durability_readers.py",
    "growth": "durability/test_durability_growth.py",
    "hostile FAISS files": "vectors/test_vectors_hostile.py",
    "archives": "core/test_core_archive.py",
    "corpus files": "corpus/test_corpus_fuzz.py",
    "checkpoints": "encoders/test_encoders_checkpoint_fuzz.py",
    "training settings": "training/test_training_config_fuzz.py",
    "filters": "store/test_store_filters.py",
}
_EXAMPLES = re.compile(r"(\d+) passing(?: examples?)?, (\d+) failing")


def run_tests(file: Path, folder: Path, profile: str) -> dict[str, Any]:
    """Run a file of tests in a process of its own, and count.

    Args:
        file: the tests.
        folder: an existing one for what pytest writes.
        profile: Hypothesis's, which says how many examples are drawn: `default`, or `nightly` for thousands.

    Returns:
        What `counted` does; `lost` also names a run that ended before its tests did.
    """
    report = folder / "found.xml"
    command = [sys.executable, "-m", "pytest", str(file), f"--junitxml={report}", f"--basetemp={folder / 'tests'}"]
    quiet = ["-o", "junit_family=xunit1", "-p", "no:cacheprovider"]
    environment = {**os.environ, "HYPOTHESIS_PROFILE": profile}
    done = subprocess.run([*command, *quiet], cwd=ROOT, stdout=sys.stderr, check=False, env=environment)
    result = counted(report.read_text(encoding="utf-8") if report.exists() else "<testsuites/>")
    if done.returncode and not result["lost"]:
        result["lost"] = [f"{file.name}: pytest ended with {done.returncode}"]
    return result


def counted(report: str) -> dict[str, Any]:
    """Return what a JUnit report of pytest's says.

    Returns:
        `tests` that ran, `examples` that Hypothesis drew, damaged `files` beside these, what else tests `measured`,
        and `lost`: those that failed, by a crash or a wrong answer.
    """
    root = ET.fromstring(report)
    cases = [case for case in root.iter("testcase") if case.find("skipped") is None]
    said = [(str(entry.get("name")), str(entry.get("value"))) for case in cases for entry in case.iter("property")]
    statistics = [
        base64.b64decode(str(entry.get("value"))).decode()
        for entry in root.iter("property")
        if str(entry.get("name")).startswith("hypothesis-statistics-")
    ]
    drawn = [match for text in statistics for match in _EXAMPLES.findall(text)]
    measured: dict[str, list[str]] = {}

    def total(counts: str) -> int:
        return sum(int(value) for name, value in said if name == counts)

    for name, value in said:
        if name not in ("files", "examples"):
            measured.setdefault(name, []).append(value)
    return {
        "tests": len(cases),
        "examples": sum(int(passing) + int(failing) for passing, failing in drawn) + total("examples"),
        "files": total("files"),
        "measured": {name: ", ".join(values) for name, values in measured.items()},
        "lost": [
            f"{case.get('classname')}::{case.get('name')}"
            for case in cases
            if case.find("failure") is not None or case.find("error") is not None
        ],
    }


def rows(parts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the table's lines for parts of tests by name."""
    lines = []
    for name, part in parts.items():
        measured = "; ".join(f"{what.replace('_', ' ')} {value}" for what, value in part["measured"].items())
        lines.append(
            f"| {name} | {part['tests']} | {part['examples']:,} | {part['files']:,} | {len(part['lost'])} "
            f"| {part['seconds']:.0f} | {measured} |"
        )
    return lines
