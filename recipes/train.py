"""Make the rows and train the shipped models, piece by piece; `make train` runs this.

    python recipes/train.py DATA KINDS --texts 6400 --minutes 90

DATA holds the files that NOTICE names, KINDS the files of label kinds and the grids of questions with their texts. What
is done stays in `build`, so that a run which was stopped goes on with the same command; the exit code is 3 until all is
done.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pieces import MODELS, PIECES, ROWS, kept

from retriever.core.errors import RetrieverError, UsageError

if TYPE_CHECKING:
    from retriever.training.pacing import StepProgress

RECIPES = Path(__file__).resolve().parent
BUILD = Path("build")
TOLD_STEPS = 20
NOT_DONE = 3
"""Exit code of a training that has to be called again."""
LABEL_TEXTS = 150
"""Texts of a file of labels, of 6,400 in all."""
OPEN_SHARE = 4
"""Rows of many kinds ask so many times more open questions, which people asked of the texts, than the other rows do."""
OPEN = ("sentences", "stories")
MENTION_BLOCKS = 5
ASKED_OF = ("reviews", "product-aspects", "products", "restaurants", "emotions")
"""The rows whose texts are asked whether they mention a word."""


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
        for name, model in MODELS.items():
            if not train(name, minutes=options.minutes, command="make train"):
                return NOT_DONE
            ship.put(name, [BUILD / piece for piece in model.pieces], [PIECES[piece].keep for piece in model.pieces])
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
        kinds: the files of label kinds and grids.
        texts: of the first rows.

    Raises:
        UsageError: the rows cannot be made.
    """
    rows = ROWS[name]
    count = texts * rows.share[0] // rows.share[1]
    drawn = ["--texts", count, "--seed", rows.seed]
    draft = out.with_name(f"{out.name}.draft")
    commands: list[list[object]] = [["mixture.py", data, draft, *drawn]]
    if rows.finding:
        commands.append(["finding.py", data, draft, *drawn])
    if rows.kinds:
        many = ["--texts", OPEN_SHARE * count, "--seed", rows.seed]
        commands.append(["mixture.py", data, draft, *many, *(f"--only={one}" for one in OPEN)])
        commands.append(["mentions.py", draft, *(draft / f"{one}.jsonl" for one in ASKED_OF)])
        commands[-1] += ["--blocks", max(1, MENTION_BLOCKS * texts // 6400), "--seed", rows.seed]
        labelled = max(2, LABEL_TEXTS * texts // 6400)
        commands.append(["labels.py", draft, kinds, "--texts", labelled, "--seed", rows.seed])
        commands.append(["asked.py", draft, data, kinds])
    for script, *arguments in commands:
        done = subprocess.run([sys.executable, str(RECIPES / str(script)), *map(str, arguments)], check=False)
        if done.returncode:
            raise UsageError(f"{script} did not make the rows of {name}.", hint="It says why above.")
    draft.rename(out)


def train(name: str, *, minutes: float, command: str, device: str = "auto", together: bool = False) -> bool:
    """Train a model's pieces in the folder `build`, or go on with them; return whether all are done.

    Args:
        name: of `pieces.MODELS`.
        minutes: at most, of every piece.
        command: what the reports say made them.
        device: to train on.
        together: the minutes are those of all pieces.

    Raises:
        RetrieverError: a piece cannot be trained.
    """
    from retriever.training.run.finetuning import FinetuneRequest, finetune

    began = time.monotonic()
    for one in MODELS[name].pieces:
        if (BUILD / one).exists():
            average(one)
            continue
        left = minutes - (time.monotonic() - began) / 60 if together else minutes
        if left <= 0:
            print(f"{one} is next: {command} again")
            return False
        piece = PIECES[one]
        request = FinetuneRequest(
            [str(path) for path in sorted((BUILD / piece.rows).glob("*.jsonl"))],
            BUILD / one,
            base=piece.base,
            config=RECIPES / f"{piece.settings}.toml",
            resume=True,
            promote=False,
            minutes=left,
            device=device,
            command=command,
        )
        report = finetune(request, on_progress=tell, announce=lambda text, one=one: print(f"{one}: {text}"))
        print(f"{one}: step {report.step} of {report.steps}, {report.seconds:.0f} s of training")
        if report.judgement is None:
            print(f"{one} is not finished: {command} again")
            return False
        print(f"{one}: {report.judgement.verdict.sentence}")
        average(one)
    return True


def average(name: str) -> None:
    """Write the folder with the mean of the weights before and after a piece that keeps some of those before."""
    import ship

    piece = PIECES[name]
    if piece.keep and not (BUILD / kept(name)).exists():
        ship.average(Path(piece.base), BUILD / name, piece.keep, BUILD / kept(name))


def tell(stage: str, now: "StepProgress") -> None:
    """Print every so many steps how it goes."""
    if now.step % TOLD_STEPS == 0:
        print(f"{stage}: step {now.step} of {now.steps}, loss {now.loss:.3f}, {now.rows_per_second:.0f} rows/s")


if __name__ == "__main__":
    sys.exit(main())
