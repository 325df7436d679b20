"""Writes docs/cli.md from the commands' own help: ``python -m retriever.cli.reference > docs/cli.md``."""

import os
import sys

import typer.main
from typer.testing import CliRunner

from retriever.cli.main import app

_HEADER = """# Command line

Made from the commands' own help by `make docs`; a test keeps it true.

Every command: results go to stdout, talk and progress to stderr; `--json` prints one JSON document, whose keys are the
fields shown in `retriever/services/results.py` (`cluster`: `clustering.py` and `saved_clusterings.py`, `compare`:
`comparing.py`, `eval`: `evaluation_results.py`, `diagnose`: `diagnosing.py`, `finetune`: `finetune_report.py`,
`curate`: `curating.py`). Exit codes: 0 done, 1 error, 2 wrong usage, 3 done with rows skipped, 4 index damaged, 130
interrupted. `NO_COLOR` is honoured; `RETRIEVER_DEBUG=1` shows tracebacks; `RETRIEVER_CACHE` moves the cache of models,
embeddings and evaluations, `RETRIEVER_CONFIG` the folder where `models promote` keeps its choice.
"""


def reference() -> str:
    """Return the text of docs/cli.md."""
    sections = [_HEADER]
    for command in _commands():
        shown = CliRunner().invoke(app, [*command, "--help"], prog_name="retriever", env={"COLUMNS": "110"})
        sections.append(f"## {' '.join(command)}\n\n```\n{shown.output.strip()}\n```\n")
    return "\n".join(sections)


def _commands() -> list[list[str]]:
    names: list[list[str]] = []
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", {})
        names += [[name, sub] for sub in inner] or [[name]]
    return names


if __name__ == "__main__":
    os.environ["NO_COLOR"] = "1"
    sys.stdout.write(reference())
