"""`retriever diagnose`: whether the model obeys an instruction on one's own texts."""

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
    limit: Annotated[int, typer.Option(help="Most texts to look at.")] = 200,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Tell whether an instruction is obeyed, weakly obeyed or ignored: how vectors move, what the model answers.

    Example: retriever diagnose --instruction "What kind of product is it?" --corpus examples/reviews.jsonl
    """
    from retriever import load_encoder
    from retriever.evaluation.run import diagnosing
    from retriever.workspace import Index

    if limit < 1:
        raise UsageError(f"--limit is {limit}.", hint=f"At least {diagnosing.LEAST_TEXTS} texts are needed.")
    known = diagnosing.read_pairs(pairs) if pairs else []
    if corpus is not None:
        texts = diagnosing.corpus_texts(corpus, limit, encoding=encoding)
        found = diagnosing.diagnose(load_encoder(encoder, device=device), texts, instruction, known)
    else:
        with Index(index, device=device) as opened:
            texts = diagnosing.index_texts(opened, limit)
            found = diagnosing.diagnose(opened.encoder, texts, instruction, known)
    if json:
        output.document(found.to_json())
    else:
        _render(found)


def _render(found: "Diagnosis") -> None:
    shifts = {
        "no instruction": found.base,
        "paraphrases (should be near)": found.paraphrase,
        "unrelated instructions (should be far)": found.unrelated,
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
    words = ", ".join(f"{word} ({count})" for word, count in found.words[:SHOWN])
    output.result(printable(f"answers over {found.texts} texts: {words or 'the model answers in no words'}"))
    if found.pairs is not None:
        output.result(
            f"{found.pairs.pairs} pairs: AUC {found.pairs.auc:.3f} (base view {found.pairs.base_auc:.3f}), balanced "
            f"accuracy {found.pairs.accuracy:.3f} at a cosine of {found.pairs.threshold:.3f}"
        )
    output.result(output.style(found.verdict, {"obeyed": "green", "weakly": "yellow", "ignored": "red"}[found.level]))
