"""Writes docs/cli.md from the commands' own help: ``python docs/tools/cli_reference.py > docs/cli.md``."""

import os
import sys

import typer.main
from typer.testing import CliRunner

from retriever.cli.help import ADVANCED, Command
from retriever.cli.main import app

_HEADER = """# Command line

Made from the commands' own help by `make docs`; a test keeps it true.

Every command: results go to stdout, messages and progress to stderr; `--json`, which all but `app`, `serve` and `mcp`
take, prints one JSON document, whose keys are the fields shown in `retriever/core/results.py` (`cluster`:
`clusters/clustering.py` and `clusters/saved.py`, `compare`: `clusters/comparing.py`, `report`: `clusters/report.py`,
`eval`: `evaluation/run/results.py`, `diagnose`: `index/verdicts/diagnosis.py`, `answers`:
`index/teaching/unanswered.py`, `finetune`: `training/run/report.py`, `curate`:
`training/curation.py`). The help of a command only names its advanced options; here they follow the
others. Exit codes: 0 done, 1 error, 2 wrong usage, 3 done with rows skipped, 4 index damaged, 130 interrupted.
`NO_COLOR` is honoured; `RETRIEVER_DEBUG=1` shows tracebacks; `RETRIEVER_CACHE` moves the cache of models and
evaluations, `RETRIEVER_CONFIG` the folder that keeps the choice of `models promote` and which hosts may get texts of
which index, and `RETRIEVER_OFFLINE=1` forbids to download models. `retriever --version` prints the version. Characters
that standard output cannot encode are escaped (`\\u6c34`), in JSON as JSON escapes. A closed stream is the null device,
and changes no exit code; a standard output that cannot be written, on a full disk, is an error (1), unless the program
that reads it has left (`| head`).
A command that reads texts for more than half a minute says beforehand, once, about how long that takes, by the first of
these texts, which are read ahead and kept; `--workers` and `--ray` say it after some batches.

A language model is asked by `search`, `cluster` and `compare`, and by `index` with `--read`; `verify`, `repair`,
`reembed`, `import`, `export` and `index` without it ask none. Before texts go to another machine, a terminal
shows one question, which `--yes` answers. Elsewhere a reader that is named at a host that nobody allowed is wrong usage
(2), and nothing is sent. A yes holds for one host and one index, and is kept with the user: an index that is imported
or copied asks anew. A search whose language model cannot be asked uses the answers that are stored, and says why on
stderr and in `reader_fault`. `--read N` and `--max-texts` are ceilings over the texts that were ever sent under a
question. A line on stderr says what was sent; `sent` of `status` has the sum of all days.

`verdict`, of `search`, `cluster`, and each view of `views` and `status`, and `verdicts` of `compare` and `index`, say
whether the model follows the instruction: `level` (`followed`, `unclear`, `not followed`), `chance` (0 to 1), `texts`
looked at, the most frequent `answers` (`word`, `texts`), `another_question` (whether they go by the topics of the
texts and the question does not; then the level is `unclear` at best), `language` (the name of the texts' language
where the model was made for English alone; the level is `unclear` at best too), `measured` (whether the chance was
measured with this very model) and a `sentence` with what to do. It is judged once an index and question, and null
without an instruction, with fewer than 30 texts, and, but for views, where the instruction was taught. `caution` of
`cluster` and `report` comes before all else: that the instruction is not followed, that this is unclear, or that
teaching it gave no sure gain, and what its clusters are then; that they are not stable; which categories were not
learned; why there are fewer than `-k`. It is empty elsewhere. Documents with one text are one hit of `search`, the
first by id, and `equal` has the others that the filter accepts: their `count` and their `ids`. So `-k` hits are
different texts. `taught`, of `cluster` and each view, has the examples of each answer, the share answered rightly of
those left out, `before` and `after`, and by answer how many of them are `right` after.

`--where` compares metadata fields: `stars <= 2 and (category = 'toy' or tags has 'gift') and not brand in ('A', 'B')`,
with `=`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `has` (an item of a list) and `contains` (a part of a text). Text and dates
stand in single or double quotes. A field name with a space or another sign stands in brackets, which shells leave
alone: `--where "[product category] = 'books'"`; backticks do as well, and double quotes where a field is wanted.
A filter that no document matches because the field holds values of another type (`stars = '1'`) is wrong usage (2), and
the message says how to write it. `--by` counts a document whose value is a list under each item,
and dates (below) by their day, month or year in UTC: the shortest of these of which there are at most 24.

Where a field holds dates (four in five of its values are ISO dates), they are compared as moments in UTC, whatever
their zones and precision; a time without a zone is taken as UTC. A day, month or year is all of it:
`created_at <= '2024-05-31'` includes the times of that day, `created_at = '2024-05'` is that month, and
`created_at > 2024` begins with 2025. A time of day is that very moment. A value such as `2024-05` counts as its
beginning, 1 May. A text that is no date is wrong usage there (2); `contains` looks for parts of texts in any field.

Where a language model, a program or a person answers the instruction, `search` and `cluster` filter by the
answers as well: `--where "answer = 'refund' and stars <= 2"`, whatever the case. Where documents have a field `answer`
(also as the last part of a name, `form.answer`), `answer` is that field; `@answer` is always the answer, and `[answer]`
is always the field. The filter uses the answers that are known when the command begins, a person's before the model's,
and nothing is read for it: a text without an answer matches no filter that names it, `!=` and `or` included. A line on
stderr, and `known_answers` in JSON (`answers` of `texts`), say how many answers there were. Without an instruction
that somebody answers, in `report` and between the clusters of two instructions, `answer` is wrong usage (2).

Files other than Parquet are UTF-8. One that is not stops the command before anything is done, with a guess:
`retriever index reviews.csv --encoding windows-1252` reads it. Cells may be parted by commas, semicolons, tabs or bars.
Texts, ids and values are composed (Unicode's NFC), and a text without a visible character is empty, and skipped. HTML
entities (`&eacute;`, `&lt;`) are decoded, unless as many texts of the file speak of HTML. Tags are taken out where they
recur in a file, in a hundredth of its texts and in two at least, but for those that a sentence speaks of (`use the <br>
tag`). `index` says what it changed of a file; `--raw` keeps values and HTML as they are.
"""


def reference() -> str:
    """Return the text of docs/cli.md."""
    sections = [_HEADER]
    for names, command in _commands():
        shown = CliRunner().invoke(app, [*names, "--help"], prog_name="retriever", env={"COLUMNS": "110"})
        help, _, _ = shown.output.strip().partition(f"\n{ADVANCED}:")
        sections.append(f"## {' '.join(names)}\n\n```\n{help}\n{_advanced(command)}```\n")
    return "\n".join(sections)


def _advanced(command: Command) -> str:
    """Return the help of the options that the command's own help only names."""
    context = command.context_class(command, terminal_width=80)  # as in tests
    formatter = context.make_formatter()
    records = []
    for option in command.advanced:
        option.hidden = False
        records.append(option.get_help_record(context) or ("", ""))
        option.hidden = True
    if records:
        with formatter.section("Advanced options"):
            formatter.write_dl(records)
    return formatter.getvalue()


def _commands() -> list[tuple[list[str], Command]]:
    commands: list[tuple[list[str], Command]] = []
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", {})
        commands += [([name, sub], each) for sub, each in inner.items()] or [([name], command)]
    return commands


if __name__ == "__main__":
    os.environ["NO_COLOR"] = "1"
    sys.stdout.write(reference())
