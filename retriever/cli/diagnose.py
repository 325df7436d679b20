"""`retriever diagnose`: whether the model follows an instruction on one's own texts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, EncodingOption, IndexOption, JsonOption
from retriever.core.errors import UsageError
from retriever.core.text import printable

if TYPE_CHECKING:
    from retriever.evaluation.run.diagnosing import Diagnosis

SHOWN = 12


def diagnose(  # noqa: PLR0913 - one parameter per option
    instruction: Annotated[str, typer.Option(help="The instruction in question.")],
    index: IndexOption = DEFAULT_INDEX,
    corpus: Annotated[
        Path | None, typer.Option(help="Look at the texts of this file and not at an index's, with --encoder.")
    ] = None,
    encoder: Annotated[
        str, typer.Option(help="Encoder for --corpus: a name, METHOD:BACKBONE or a checkpoint folder.")
    ] = "default",
    pairs: Annotated[
        Path | None,
        typer.Option(
            help='JSONL rows {"a": TEXT, "b": TEXT, "same": true} for what is the same under the instruction.'
        ),
    ] = None,
    encoding: EncodingOption = None,
    limit: Annotated[int, typer.Option(help="Most texts to look at.")] = 40,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Tell whether the model follows an instruction: by its answers, and by how vectors move under other questions.

    Example: retriever diagnose --instruction "What kind of product is it?" --corpus examples/reviews.jsonl
    """
    from retriever import load_encoder
    from retriever.evaluation.run import diagnosing
    from retriever.index.readers import load_plain
    from retriever.workspace import Index

    if limit < 1:
        raise UsageError(f"--limit is {limit}.", hint=f"At least {diagnosing.LEAST_TEXTS} texts are needed.")
    known = diagnosing.read_pairs(pairs) if pairs else []
    line = output.ProgressLine()

    def told(done: int, of: int) -> None:
        line.tell(f"{done} of {of} texts read")

    if corpus is not None:
        texts = diagnosing.corpus_texts(corpus, limit, encoding=encoding)
        question, plain = load_encoder(encoder, device=device), load_plain(device=device)
        found = diagnosing.diagnose(question, texts, instruction, known, plain=plain, on_texts=told)
    else:
        with Index(index, device=device) as opened:
            texts = diagnosing.index_texts(opened, limit)
            readers = opened.readers
            second = readers.base if readers.two else None
            found = diagnosing.diagnose(readers.question, texts, instruction, known, plain=second, on_texts=told)
    line.close()
    if json:
        output.document(found.to_json())
    else:
        _render(found)


def _render(found: "Diagnosis") -> None:
    shifts = {
        "no instruction": found.base,
        "the instruction in other words (should be near)": found.paraphrase,
        "other questions (should be far)": found.others,
        "the instruction negated (should be far)": found.negated,
    }
    output.table(
        ["against", "vectors moved", "texts regrouped"],
        [[name, f"{one.moved:.3f}", f"{one.regrouped:.3f}"] for name, one in shifts.items()],
    )
    output.result()
    output.table(
        ["view", "spread", "silhouette", "clusters"],
        [
            [name, f"{one.spread:.3f}", f"{one.silhouette:.3f}", one.clusters]
            for name, one in {"under the instruction": found.view, "base": found.base_view}.items()
        ],
    )
    output.result()
    words = found.verdict.words(SHOWN) or "the model answers in no words"
    output.result(printable(f"answers over {found.verdict.texts} texts: {words}"))
    if found.pairs is not None:
        output.result(
            f"{found.pairs.pairs} pairs: AUC {found.pairs.auc:.3f} (base view {found.pairs.base_auc:.3f}), balanced "
            f"accuracy {found.pairs.accuracy:.3f} at a cosine of {found.pairs.threshold:.3f}"
        )
    output.result(
        output.style(found.sentence, {"followed": "green", "unclear": "yellow", "hardly": "red"}[found.level])
    )
