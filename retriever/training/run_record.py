"""Write the record of a run: ``run.json`` says what it was, ``losses.jsonl`` how every step went."""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from retriever.core.environment import versions
from retriever.core.paths import make_folder
from retriever.core.types import JSON

if TYPE_CHECKING:
    from retriever.training.checkpoints import Position

RUN_FILE = "run.json"
LOSSES_FILE = "losses.jsonl"


class RunRecord:
    """The record of one run, in files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, identity: Mapping[str, JSON], steps: int) -> None:
        """Start the record of a run of so many steps afresh; its identity is settings, seed and data hash."""
        make_folder(self.folder)
        about = {**identity, "steps": steps, "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        (self.folder / RUN_FILE).write_text(json.dumps({**about, "versions": versions()}, indent=1) + "\n")
        (self.folder / LOSSES_FILE).write_text("")

    def add(self, position: "Position", losses: Mapping[str, float], learning_rate: float) -> None:
        """Add one step: its losses by name, its rate, and the seconds all steps so far took."""
        row = {
            "step": position.step,
            "epoch": position.epoch,
            **losses,
            "learning_rate": learning_rate,
            "seconds": round(position.seconds, 3),
        }
        with (self.folder / LOSSES_FILE).open("a") as file:
            file.write(json.dumps(row) + "\n")

    def rewind(self, step: int) -> None:
        """Forget what came after a step: the run goes on from there. A line cut short by a crash goes too."""
        kept = [row for row in self.rows() if row["step"] <= step]
        draft = self.folder / f".{LOSSES_FILE}"
        draft.write_text("".join(json.dumps(row) + "\n" for row in kept))
        os.replace(draft, self.folder / LOSSES_FILE)  # noqa: PTH105 - the same on every system

    def rows(self) -> list[dict[str, float]]:
        """Return every step on record, oldest first."""
        file = self.folder / LOSSES_FILE
        lines = file.read_text().splitlines() if file.exists() else []
        rows = []
        for line in lines:
            try:
                rows.append(json.loads(line))
            except ValueError:
                break
        return rows
