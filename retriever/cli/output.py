"""Print the output of commands: results to stdout, messages to stderr, colour only on a terminal.

The standard streams may be as a shell, a service or a terminal of another time leaves them: closed, full, not UTF-8. A
stream that was closed is the null device. A character that a stream's encoding lacks is written as an escape.
"""

import csv
import io
import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Self, TextIO

import typer

from retriever.core.errors import OutputError
from retriever.core.files import STDIN, read_lines
from retriever.core.paths import write_output
from retriever.core.results import SCHEMA_VERSION, Forecast, IndexingReport
from retriever.core.text import about, duration, escape_formula, printable, shortened
from retriever.core.text import counted as counted

_MODES = {"stdin": "r", "stdout": "w", "stderr": "w"}
_CLEARED = "\r\x1b[K"
_LONG_SECONDS = 30.0  # of work whose time is said before it
_EVERY_SECONDS = {True: 0.2, False: 60.0}  # between progress lines: on a terminal, elsewhere


def prepare() -> None:
    """Make the standard streams such that all of them are there and can write any text."""
    for name, mode in _MODES.items():  # in the order of their numbers: a file opened takes the lowest that is free
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode, encoding="utf-8")
            os.set_inheritable(stream.fileno(), True)  # else a process of ours would have none
            setattr(sys, name, stream)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush() -> None:
    """Flush standard output; errors are those of `result`."""
    with _writing():
        sys.stdout.flush()


def result(text: str = "") -> None:
    """Print a line of the result.

    Raises:
        BrokenPipeError: the reader has left.
        OutputError: it cannot be written for another reason.
    """
    ProgressLine.clear()
    with _writing():
        typer.echo(text, file=sys.stdout)  # named, or else typer would put UTF-8 in the place of ASCII


def document(value: Mapping[str, Any]) -> None:
    """Print the one JSON document of a ``--json`` run; it begins with the version of its schema."""
    value = {"schema_version": SCHEMA_VERSION, **value}
    result(json.dumps(value, ensure_ascii=not _writes_everything(sys.stdout), indent=2))


def outcome(values: Mapping[str, Any], sentence: str, *, json: bool) -> None:
    """Print what a command has done: its values with ``--json``, else a sentence."""
    if json:
        document(values)
    else:
        result(sentence)


def say(text: str, colour: str = "") -> None:
    """Print a message beside the result, in a colour where the terminal shows it."""
    said = _printable_lines(text)
    _tell(style(said, colour, sys.stderr) if colour else said)


def agreed(question: str) -> bool:
    """Return whether a person at the terminal says yes to a question, which goes to standard error."""
    ProgressLine.clear()
    _tell(f"{printable(question)} [y/N] ", newline=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def error(message: str, hint: str = "") -> None:
    """Tell the user what went wrong and what to do next."""
    _tell(f"{style('Error:', 'red', sys.stderr)} {_printable_lines(message)}")
    if hint:
        _tell(_printable_lines(hint))


def _printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def style(text: str, colour: str, stream: Any = None) -> str:  # noqa: ANN401 - any text stream
    """Return the text coloured if the stream (stdout by default) is a terminal and NO_COLOR is unset."""
    watched = (stream or sys.stdout).isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return typer.style(text, fg=colour) if watched else text


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows in aligned columns."""
    cells = [[printable(str(cell)) for cell in row] for row in [header, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        result("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def write_table(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write rows as the file of --csv; what a spreadsheet would take for a formula is quoted."""
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(header)
    writer.writerows([escape_formula(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    write_output(path, lines.getvalue(), "--csv")


class ProgressLine:
    """One line on stderr that says how far a run is: on a terminal rewritten in place, then gone.

    Elsewhere a line is written once a minute, and a last one at the end of a run that had any. A line of its own says
    how long a run takes that takes long.
    """

    _on_screen: ClassVar[bool] = False

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._next = time.monotonic() + _EVERY_SECONDS[self._terminal]
        self._told = self._latest = ""
        self._forecast: Forecast | None = None

    @classmethod
    def clear(cls) -> None:
        """Remove the line from the terminal, so that other output can take its place."""
        if cls._on_screen:
            cls._on_screen = False
            _tell(_CLEARED, newline=False)

    def show(self, report: IndexingReport) -> None:
        """Show how far an indexing or the completion of views is if the last time is long enough ago."""
        if report.tuning:
            self.tell(f"fine-tuning: step {report.in_hand} of {report.expected}")
            return
        if report.forecast is not None and report.forecast is not self._forecast:
            self._forecast = report.forecast
            if self._forecast.seconds >= _LONG_SECONDS:
                say(_time_line(self._forecast))
        total = report.rows if report.expected is None else report.expected
        rows = f"rows in {len(report.views)} views" if len(report.views) > 1 else "rows"
        said = f"{report.in_hand}{f' of {total}' if total else ''} {rows if report.expected is None else 'texts'}"
        if report.judging:
            said = f"checking whether the model follows the question: {said}"
        self.tell(said if report.left is None else f"{said}, {duration(report.left)} left")

    def tell(self, text: str) -> None:
        """Show a text if the last time is long enough ago."""
        self._latest = printable(text)
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY_SECONDS[self._terminal]
        self._told = self._latest
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1  # a line that wraps could not be rewritten
            _tell(f"{_CLEARED}{shortened(self._latest, width)}", newline=False)
            ProgressLine._on_screen = True
        else:
            _tell(self._latest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the line."""
        self.clear()
        if self._told != self._latest and self._told and not self._terminal:
            _tell(self._latest)


def _time_line(forecast: Forecast) -> str:
    """Return the sentence that says how long a run takes."""
    under = f" under {counted(forecast.instructions, 'instruction')}" if forecast.instructions else ""
    plain = "" if forecast.plain is None else f"; without instructions, about {about(forecast.plain)}"
    return f"This takes about {about(forecast.seconds)} for {counted(forecast.texts, 'text')}{under}{plain}."


def command_line(context: typer.Context) -> str:
    """Return the command that is running as one would type it, options at their default left out."""
    words = context.command_path.split()
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if value is None or value is False or value == parameter.default or value in ([], ()):
            continue
        for item in value if isinstance(value, list | tuple) else [value]:
            name = [] if parameter.param_type_name == "argument" else [parameter.opts[0]]
            words += name if item is True else [*name, str(item)]
    return shlex.join(words)


def format_bytes(size: int) -> str:
    """Return a size as a person says it: 512 B, 3.4 MB, 12 GB."""
    value, unit = float(size), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            break
        value /= 1000
    return f"{value:.3g} {unit}"


def stdin_lines() -> list[str]:
    """Return the lines of standard input that are not blank; raise `InputError` where it cannot be read."""
    return [line.strip() for line in read_lines(STDIN) if line.strip()]


def _writes_everything(stream: TextIO) -> bool:
    """Return whether a stream's encoding has every character."""
    return (stream.encoding or "utf-8").lower().replace("-", "").replace("_", "").startswith("utf")


@contextmanager
def _writing() -> Iterator[None]:
    """Raise what keeps standard output from being written as an error of ours, unless its reader has left."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(
            f"The result cannot be written to standard output: {error.strerror or error}.",
            hint="Send it elsewhere or make space there, and run the command again.",
        ) from error


def _tell(text: str, *, newline: bool = True) -> None:
    """Write to standard error; where that cannot be written, nobody can be told."""
    if newline:
        ProgressLine.clear()
    with suppress(OSError):
        typer.echo(text, file=sys.stderr, nl=newline)
