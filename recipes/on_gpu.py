"""Train the shipped models on a machine with one GPU and without network, to which folders can be copied.

`recipes/on_gpu.sh` says what the commands are, and in which order. What a stage has done stays in the work folder, so
that a command which was stopped is given again. The pieces are those of `make train`.
"""

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from contextlib import chdir
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

import gpu_needs
import gpu_parts
from pieces import MODELS, PIECES, ROWS
from train import NOT_DONE, make_rows
from train import train as pieces_of

from retriever.core.errors import RetrieverError, UsageError

HOME = Path(__file__).resolve().parents[1]
RECIPES = HOME / "recipes"
MEBI = 2**20
BUILD, DATA, MODELS_FOLDER, SCORES, SITE, WHEELS_FOLDER = "build", "data", "models", "scores", "site", "wheels"
MANIFEST = "manifest.json"
ADAPTER, MOST_ADAPTER = "adapter_model.safetensors", 12 * MEBI


def work() -> Path:
    """Return the folder that everything is kept in."""
    return Path(os.environ.get("ON_GPU_WORK") or HOME / BUILD / "on_gpu").resolve()


def pack(
    out: Path, data: Path, kinds: Path, *, texts: int, part_size: int, suites: Sequence[str], wheels: Path | None
) -> None:
    """Write what the other machine lacks as parts: backbone, teacher, rows, the suites' data, and wheels."""
    from retriever.encoders.sources import WHEELS
    from retriever.evaluation.suites import find_suite

    if out.exists():
        raise UsageError(f"{out} exists already.", hint="Choose another folder.")
    draft = out / "draft"
    files: dict[str, Path] = {}
    for wheel in WHEELS.values():
        spec = find_spec(wheel.module)
        if spec is None or spec.origin is None:
            raise UsageError(f"{wheel.module} is not installed.", hint=wheel.install)
        files[f"{SITE}/{wheel.module}/{wheel.file}"] = Path(spec.origin).parent / wheel.file
        files[f"{SITE}/{wheel.module}/__init__.py"] = Path(os.devnull)
    for name in ROWS:
        made = draft / name
        make_rows(name, made, data, kinds, texts=texts)
        files |= {f"{BUILD}/{name}/{one.name}.gz": zipped(one) for one in sorted(made.glob("*.jsonl"))}
    for name in dict.fromkeys(file for suite in suites for task in find_suite(suite) for file in task.files):
        copied = draft / DATA / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(data / name, copied)
        files[f"{DATA}/{name}.gz"] = zipped(copied)
    files |= {f"{WHEELS_FOLDER}/{one.name}": one for one in sorted(wheels.glob("*.whl"))} if wheels else {}
    parts = gpu_parts.cut(files, out, part_size)
    shutil.rmtree(draft)
    print(f"{len(parts)} parts of at most {max(part.size for part in parts) / MEBI:.1f} MiB in {out}, a folder each.")
    print(f"Carry this checkout ({tracked() / MEBI:.1f} MiB of tracked files) and one folder after another.")


def zipped(path: Path) -> Path:
    """Compress a file beside itself, the same way every time."""
    target = path.with_name(f"{path.name}.gz")
    target.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    return target


def tracked() -> int:
    """Return the bytes of the checkout's tracked files; 0 where git does not say."""
    listed = subprocess.run(["git", "-C", str(HOME), "ls-files", "-z"], capture_output=True, text=True, check=False)
    paths = [HOME / name for name in listed.stdout.split("\0") if name]
    return sum(path.stat().st_size for path in paths if path.is_file())


def unpack(arrived: Path) -> bool:
    """Take the wheels and parts of a folder, lay out what is in them once all are there, and return `check`'s answer.

    Raises:
        InputError: the folder holds neither, or a part is not what was packed.
    """
    inbox, folder = work() / "parts", work()
    loose = sorted(arrived.rglob("*.whl"))
    install(loose)
    if not loose or any(arrived.rglob(gpu_parts.LIST)):
        if missing := gpu_parts.take(arrived, inbox):
            print(f"Still to come: {', '.join(part.name for part in missing)}.")
            return False
        gpu_parts.join(inbox, folder)
        for path in [*folder.glob(f"{BUILD}/*/*.gz"), *folder.glob(f"{DATA}/*.gz")]:
            path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
            path.unlink()
        install(sorted(folder.glob(f"{WHEELS_FOLDER}/*.whl")))
    settle()
    if not check():
        return False
    from retriever.encoders.sources import WHEELS, find_source

    for name in WHEELS:
        find_source(name)  # written as safetensors once
    return True


def install(wheels: Sequence[Path]) -> None:
    """Lay wheels out where they are imported from."""
    for path in wheels:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(work() / SITE)


def check() -> bool:
    """Say which packages and which material are missing, and what the GPU is; return whether all is there."""
    lacking = gpu_needs.missing()
    print("\n".join(gpu_needs.advice(lacking)) or "All packages are there.")
    folders = [*(f"{BUILD}/{name}" for name in ROWS), DATA]
    absent = [name for name in folders if not any((work() / name).glob("*.jsonl"))]
    if absent:
        print(f"missing: {', '.join(absent)}; unpack all parts first")
    if find_spec("torch"):
        import torch

        print(f"GPU: {torch.cuda.get_device_name(0) if torch.cuda.is_available() else 'none, the CPU will be used'}")
    return not lacking and not absent


def train(name: str, *, minutes: float, device: str) -> bool:
    """Train a model piece by piece for at most so many minutes, and put it together; return whether it is done."""
    model = MODELS[name]
    if model.after and not (work() / BUILD / model.after).exists():
        raise UsageError(f"{name} goes on from {model.after}.", hint="Run `train default` first.")
    with chdir(work()):  # where settings name a teacher as build/NAME
        done = pieces_of(name, minutes=minutes, device=device, command=f"train {name}", together=True)
    if done:
        put(name)
    return done


def put(name: str) -> None:
    """Write a model as it ships, with its card."""
    import ship

    pieces = [work() / BUILD / piece for piece in MODELS[name].pieces]
    folder = ship.put(name, pieces, [PIECES[one].keep for one in MODELS[name].pieces], into=work() / MODELS_FOLDER)
    print(f"{name} is done: {folder}")


def score(suites: Sequence[str], *, limit: int | None, device: str) -> None:
    """Measure the models that are done; a task that was measured before is not measured again."""
    from retriever import load_encoder
    from retriever.evaluation.run.evaluating import document, evaluate
    from retriever.evaluation.run.requests import EvaluationRequest

    for name in done():
        encoder = load_encoder(str(work() / MODELS_FOLDER / name), device=device)
        for suite in suites:
            request = EvaluationRequest(suite, work() / DATA, limit=limit, command="recipes/on_gpu.sh score")
            found = evaluate(request, encoder, progress=lambda now: now.embedding or print(f"{now.suite} {now.task}"))
            file = work() / SCORES / f"{name}-{suite}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(document([found]), indent=1) + "\n", encoding="utf-8")
            print(f"{name}, {suite}: {'' if found.mean is None else f'{found.mean:.1f}'}")


def collect(out: Path) -> None:
    """Write the models that are done as an archive each, and all scores as one file.

    Raises:
        UsageError: nothing is done, or an adapter is too large to be carried.
    """
    names = done()
    if not names:
        raise UsageError("No model is done yet.", hint="train default")
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        folder = work() / MODELS_FOLDER / name
        if (size := (folder / ADAPTER).stat().st_size) > MOST_ADAPTER:
            raise UsageError(f"The adapter of {name} has {size / MEBI:.1f} MiB.", hint="12 MiB are expected.")
        with tarfile.open(out / f"{name}.tar", "w") as archive:
            archive.add(folder, arcname=name)
        print(f"{out / name}.tar: {(out / f'{name}.tar').stat().st_size / MEBI:.1f} MiB")
    found = {one.stem: json.loads(one.read_text()) for one in sorted((work() / SCORES).glob("*.json"))}
    (out / "scores.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if rest := [name for name in MODELS if name not in names]:
        print(f"Not done yet: {', '.join(rest)}.")
    print(f"At home: tar -x -f {names[0]}.tar -C retriever/pretrained")


def done() -> list[str]:
    """Return the models that are put together."""
    return [name for name in MODELS if (work() / MODELS_FOLDER / name / MANIFEST).exists()]


def settle() -> None:
    """Let what was unpacked be found, and keep what is derived in the work folder."""
    site = str(work() / SITE)
    if site not in sys.path:
        sys.path.insert(0, site)  # what was carried goes before what is there
    invalidate_caches()
    os.environ.setdefault("RETRIEVER_CACHE", str(work() / "cache"))
    os.environ.setdefault("RETRIEVER_CONFIG", str(work() / "config"))


def size(text: str) -> int:
    """Return the bytes of a size such as 32M, in mebibytes where a letter follows."""
    number = text.upper().removesuffix("M")
    return int(number) * (MEBI if number != text else 1)


def parser() -> argparse.ArgumentParser:
    """Return the commands and their options."""
    made = argparse.ArgumentParser(prog="recipes/on_gpu.sh", description=__doc__)
    commands = made.add_subparsers(dest="command", required=True)
    one = commands.add_parser("pack", help="Here: write what the other machine lacks, in parts.")
    one.add_argument("out", type=Path)
    one.add_argument("--data", type=Path, required=True, help="The folder with the data files.")
    one.add_argument("--kinds", type=Path, required=True, help="The folder with the files of label kinds and grids.")
    one.add_argument("--texts", type=int, default=6400, help="Texts of the first rows, as TEXTS of `make train`.")
    one.add_argument("--part-size", type=size, default=32 * MEBI, help="Most bytes of a part, such as 32M.")
    one.add_argument("--suite", action="append", help="A suite to score with there; repeatable. awareness by default.")
    one.add_argument("--wheels", type=Path, help="A folder of wheels that the other machine lacks.")
    one = commands.add_parser("unpack", help="There: take the parts of a folder; with all of them, lay everything out.")
    one.add_argument("folder", type=Path)
    commands.add_parser("check", help="There: say what is missing.")
    one = commands.add_parser("train", help="There: train a model, or go on; exit 3 where it is not done yet.")
    one.add_argument("model", choices=MODELS)
    one.add_argument("--minutes", type=float, default=9.0, help="Stop after so many, to go on with the same command.")
    one.add_argument("--device", default="auto")
    one = commands.add_parser("score", help="There: measure what is done.")
    one.add_argument("--suite", action="append", help="A suite that was packed; repeatable. awareness by default.")
    one.add_argument("--limit", type=int, help="Most items a task looks at.")
    one.add_argument("--device", default="auto")
    one = commands.add_parser("collect", help="There: write adapters and scores, to be carried home.")
    one.add_argument("out", type=Path)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 an error, 3 to be called again."""
    asked = parser().parse_args(arguments)
    if asked.command != "pack":
        settle()
    suites = getattr(asked, "suite", None) or ["awareness"]
    done = True
    try:
        match asked.command:
            case "pack":
                options = {"texts": asked.texts, "part_size": asked.part_size, "suites": suites, "wheels": asked.wheels}
                pack(asked.out, asked.data, asked.kinds, **options)
            case "unpack":
                done = unpack(asked.folder)
            case "check":
                done = check()
            case "train":
                done = train(asked.model, minutes=asked.minutes, device=asked.device)
            case "score":
                score(suites, limit=asked.limit, device=asked.device)
            case _:
                collect(asked.out)
    except RetrieverError as error:
        print(f"{error.message} {error.hint}".rstrip(), file=sys.stderr)
        return 1
    return 0 if done else NOT_DONE


if __name__ == "__main__":
    sys.exit(main())
