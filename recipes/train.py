"""Make the rows and train the shipped models, piece by piece; `make train` runs this.

    python recipes/train.py DATA KINDS --texts 6400 --minutes 90

DATA holds the files that NOTICE names, KINDS what `kinds.py` reads. Finished rows and pieces stay in `build`, so that a
run which was stopped goes on with the same command; the exit code is 3 until all is done.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pieces import MODELS, PIECES, ROWS

from retriever.core.errors import RetrieverError, UsageError

if TYPE_CHECKING:
    from retriever.training.loop import StepProgress

RECIPES = Path(__file__).resolve().parent
BUILD = Path("build")
COMMAND = "make train"
TOLD_STEPS = 20
NOT_DONE = 3
"""Exit code of a training that has to be called again."""


def main() -> int:
    """Parse the options, make what rows there are not yet, and train for so many minutes a piece."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("kinds", type=Path)
    parser.add_argument("--texts", type=int, default=6400, help="Texts of the first rows.")
    parser.add_argument("--minutes", type=float, default=90, help="Of one piece in one call.")
    options = parser.parse_args()
    import ship

    try:
        for name in ROWS:
            if not (BUILD / name).exists():
                make_rows(name, BUILD / name, options.data, options.kinds, texts=options.texts)
        for name, pieces in MODELS.items():
            if not train(name, minutes=options.minutes):
                return NOT_DONE
            ship.put(name, [BUILD / piece for piece in pieces], keep=PIECES[pieces[-1]].keep)
    except RetrieverError as error:
        print(f"{error.message} {error.hint}".rstrip(), file=sys.stderr)
        return 1
    return 0


def make_rows(name: str, out: Path, data: Path, kinds: Path, *, texts: int) -> None:
    """Write a folder of rows; it appears when all of them are there.

    Args:
        name: of `pieces.ROWS`.
        out: the folder.
        data: the files that NOTICE names.
        kinds: what `kinds.py` reads.
        texts: of the first rows.

    Raises:
        UsageError: the rows cannot be made.
    """
    rows = ROWS[name]
    count = texts * rows.share[0] // rows.share[1]
    draft = out.with_name(f"{out.name}.draft")
    commands: list[list[object]] = [["mixture.py", data, draft, "--texts", count, "--seed", rows.seed]]
    if rows.finding:
        commands.append(["finding.py", data, draft, "--texts", round(count * rows.finding), "--seed", rows.seed])
    if rows.kinds:
        commands.append(["kinds.py", kinds, draft, "--seed", rows.seed])
    for script, *arguments in commands:
        done = subprocess.run([sys.executable, str(RECIPES / str(script)), *map(str, arguments)], check=False)
        if done.returncode:
            raise UsageError(f"{script} did not make the rows of {name}.", hint="It says why above.")
    draft.rename(out)


def train(name: str, *, minutes: float) -> bool:
    """Train a model's pieces in the folder `build`, or go on with them; return whether all are done.

    Args:
        name: of `pieces.MODELS`.
        minutes: at most, of every piece.

    Raises:
        RetrieverError: a piece cannot be trained.
    """
    from retriever.training.run.finetuning import FinetuneRequest, finetune

    for part in MODELS[name]:
        if (BUILD / part).exists():
            continue
        piece = PIECES[part]
        request = FinetuneRequest(
            [str(path) for path in sorted((BUILD / piece.rows).glob("*.jsonl"))],
            BUILD / part,
            base=piece.base,
            config=RECIPES / f"{piece.settings}.toml",
            resume=True,
            promote=False,
            minutes=minutes,
            command=COMMAND,
        )
        report = finetune(request, on_progress=tell, announce=lambda text, part=part: print(f"{part}: {text}"))
        print(f"{part}: step {report.step} of {report.steps}, {report.seconds:.0f} s of training")
        if report.judgement is None:
            print(f"{part} is not finished: {COMMAND} again")
            return False
        print(f"{part}: {report.judgement.verdict.sentence}")
    return True


def tell(stage: str, now: "StepProgress") -> None:
    """Print every so many steps how it goes."""
    if now.step % TOLD_STEPS == 0:
        print(f"{stage}: step {now.step} of {now.steps}, loss {now.loss:.3f}, {now.rows_per_second:.0f} rows/s")


if __name__ == "__main__":
    sys.exit(main())
