"""What a backbone costs to train with its recipe, worked out from its shape. Nothing is run, and no model is loaded.

    python benchmarks/backbone_costs.py --flops 5e13
    python benchmarks/backbone_costs.py --count build/rows

Per token, with N the weights of the linear layers, L the layers, hw the width of all heads, T the tokens of a line:

- floating-point operations: 2N + 4 L T hw forward (Kaplan et al., "Scaling Laws for Neural Language Models", 2020,
  section 2.1; attention counted whole, since masks hide what it computes). Backward, the gradient of what a layer read
  costs 2N, attention's 8 L T hw, and the gradients of LoRA's factors 4 times their weights (`training.lora_products`).
- bytes that a pass keeps for its gradients, at b bytes a number: a sum over every tensor that the layers save, as
  Korthikanti et al. ("Reducing Activation Recomputation in Large Transformer Models", 2022, section 4) count them, for
  RMSNorm, gated feed-forward layers and fused attention: 2(4 + b)d for two norms, whose inputs are kept in float32,
  4b hw for queries, keys, values and what is read of them (6b d in ModernBERT), 4b i in the feed-forward layer, and
  4(h + g)w where queries and keys have norms.

Memory is the weights, once more the linear layers merged with the adapter, 16 bytes for a
trained number (value, gradient and Adam's two moments in float32: Rajbhandari et al., "ZeRO", 2020, section 3.1), what
a batch keeps, and 10 bytes for every predicted token and word of the vocabulary. Left out: the framework itself, the
teacher, fragmentation, padding, and the products that merge an adapter once a step.

`--flops` is what a machine is taken to reach, not what its data sheet says; a third to a half of that is usual for
large passes, less for passes of 2,048 tokens over small models.
"""

import argparse
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from retriever.evaluation.run.report import table
from retriever.training.config import FinetuneConfig, read_config
from retriever.training.objectives.reading import PIECE_TOKENS

RECIPES = Path(__file__).resolve().parents[1] / "recipes"
ROWS = 51_156
"""Rows of the three pieces that `default` was trained with."""
QUESTIONS = 4
"""Most questions of a text that the recipes keep in one batch."""
SPECIAL = 2
"""Tokens around a prompt of a masked model."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A language model's shape, as its published config.json has it.

    Attributes:
        name: of its recipe.
        hub: where it is published.
        vocabulary: V, rows of the embedding table, which is the head too.
        dim: d, width of the states.
        inner: i, width of the feed-forward layers.
        layers: how many.
        heads: h, of queries.
        groups: g, heads of keys and values.
        width: w, of a head.
        normed: whether queries and keys have norms.
        masked: whether it is a ModernBERT; else a Llama or a Qwen3.
    """

    name: str
    hub: str
    vocabulary: int
    dim: int
    inner: int
    layers: int
    heads: int
    groups: int
    width: int
    normed: bool = False
    masked: bool = False

    @property
    def linear(self) -> list[tuple[int, int]]:
        """The (in, out) of every linear layer of a layer."""
        d, i = self.dim, self.inner
        if self.masked:
            return [(d, 3 * d), (d, d), (d, 2 * i), (i, d)]
        queries, keys = self.heads * self.width, self.groups * self.width
        return [(d, queries), (d, keys), (d, keys), (queries, d), (d, i), (d, i), (i, d)]

    @property
    def linear_weights(self) -> int:
        """N, the weights of all linear layers below the head."""
        return self.layers * sum(rows * columns for rows, columns in self.linear)

    @property
    def parameters(self) -> int:
        """All weights, the head's that are the embedding table's once."""
        norms = self.layers * (2 * self.dim + (2 * self.width if self.normed else 0)) + self.dim
        # ModernBERT: a norm behind the table, none before the first layer; a head of its own; a bias for every word.
        head = self.dim * self.dim + self.dim + self.vocabulary if self.masked else 0
        return self.vocabulary * self.dim + self.linear_weights + norms + head

    def adapter(self, rank: int, look_ahead: int = 0) -> int:
        """Return the trained numbers: LoRA on every linear layer, and look-ahead embeddings."""
        return rank * self.layers * sum(map(sum, self.linear)) + look_ahead * self.dim

    def flops(self, line: float, *, rank: int | None = None) -> float:
        """Return the floating-point operations of a token in a line of so many; without a rank, forward alone."""
        weights, attention = 2 * self.linear_weights, 4 * self.layers * line * self.heads * self.width
        if rank is None:
            return weights + attention
        return 2 * weights + 3 * attention + 4 * self.adapter(rank)

    def head_flops(self) -> float:
        """Return those of predicting a token: forward, and backward into the state alone, since it is not trained."""
        return 4 * self.vocabulary * self.dim + (4 * self.dim**2 if self.masked else 0)

    def kept_bytes(self, number: int = 2) -> int:
        """Return the bytes that a pass keeps of a token, a number having 2 (bfloat16) or 4."""
        norms = 2 * (4 + number) * self.dim
        attention = 6 * number * self.dim if self.masked else 4 * number * self.heads * self.width
        if self.normed:
            attention += 4 * (self.heads + self.groups) * self.width
        return self.layers * (norms + attention + 4 * number * self.inner)


SHAPES = (
    Shape("default", "HuggingFaceTB/SmolLM2-135M-Instruct", 49_152, 576, 1536, 30, 9, 3, 64),
    Shape("smollm2-360m", "HuggingFaceTB/SmolLM2-360M-Instruct", 49_152, 960, 2560, 32, 15, 5, 64),
    Shape("qwen3-0.6b", "Qwen/Qwen3-0.6B", 151_936, 1024, 3072, 28, 16, 8, 128, normed=True),
    Shape("smollm2-1.7b", "HuggingFaceTB/SmolLM2-1.7B-Instruct", 49_152, 2048, 8192, 24, 32, 32, 64),
    Shape("modernbert-base", "answerdotai/ModernBERT-base", 50_368, 768, 1152, 22, 12, 12, 64, masked=True),
)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Mean tokens of rows.

    Attributes:
        text: of a text, cut as the recipe says.
        around: of what a prompt has beside it, the question included.
        plain: the same under the default instruction.
        answer: of an answer.
        questions: rows of a text that stand in one batch.
    """

    text: float
    around: float
    plain: float
    answer: float
    questions: float


@dataclass(frozen=True, slots=True)
class Pass:
    """A part of what a batch reads: its lines, the tokens of each, and the tokens that it predicts."""

    lines: float
    line: float
    predicted: float = 0.0

    @property
    def tokens(self) -> float:
        """All tokens read."""
        return self.lines * self.line


def passes(config: FinetuneConfig, tokens: Tokens) -> list[Pass]:
    """Return what a batch reads by InstEmb or masked InBedder; every answer is counted as if no other were like it."""
    texts, rows = config.batch.texts, config.batch.texts * tokens.questions
    if config.method.name == "inbedder":
        return [Pass(rows, SPECIAL + tokens.text + tokens.around + tokens.answer, rows * tokens.answer)]
    ahead = config.adapter.look_ahead
    line = tokens.text + tokens.questions * (tokens.around + ahead)  # a text is read once for all its questions
    found = [Pass(texts, line, rows * ahead), Pass(rows, tokens.plain + tokens.answer + ahead)]
    if config.similarity is not None:
        mean = (tokens.text + tokens.around + tokens.answer) / 3  # texts, questions and answers alike
        found.append(Pass(config.similarity.texts, tokens.plain + mean + ahead))
    return found


def batch_flops(shape: Shape, read: Sequence[Pass], *, rank: int) -> float:
    """Return the floating-point operations of a step with LoRA of a rank."""
    return sum(one.tokens * shape.flops(one.line, rank=rank) + one.predicted * shape.head_flops() for one in read)


def memory(shape: Shape, config: FinetuneConfig, read: Sequence[Pass], number: int = 2) -> float:
    """Return the bytes that a step takes, the model's numbers having so many."""
    held = PIECE_TOKENS if shape.masked else sum(one.tokens for one in read[:2])  # similarities come after the rest
    trained = shape.adapter(config.adapter.rank, config.adapter.look_ahead)
    weights = number * (shape.parameters + shape.linear_weights) + 16 * trained
    predicted = sum(one.predicted for one in read) * min(1.0, held / sum(one.tokens for one in read))
    return weights + held * shape.kept_bytes(number) + 10 * shape.vocabulary * predicted


def costs(shapes: Sequence[Shape], tokens: Tokens, flops: float, rows: int) -> Iterator[list[str]]:
    """Yield a line of the table for every shape."""
    for shape in shapes:
        config = read_config(RECIPES / f"{shape.name}.toml", None, rows=rows)
        longest = Tokens(config.data.max_text_tokens, tokens.around, tokens.plain, tokens.answer, tokens.questions)
        read = passes(config, tokens)
        row = batch_flops(shape, read, rank=config.adapter.rank) / (config.batch.texts * tokens.questions)
        yield [
            f"`{shape.name}.toml`",
            shape.hub,
            f"{shape.parameters / 1e6:,.0f}",
            f"{shape.adapter(config.adapter.rank, config.adapter.look_ahead) / 1e6:.1f}",
            f"{shape.kept_bytes() / 2**20:.2f}",
            f"{memory(shape, config, read) / 2**30:.1f}, {memory(shape, config, passes(config, longest)) / 2**30:.1f}",
            f"{row / 1e12:.3f}",
            f"{row * rows / flops / 60:.1f}",
        ]


def count(folder: Path, most: int = 112) -> Tokens:
    """Count the tokens of a folder of rows as the shipped backbone's tokenizer has them; texts are cut to ``most``."""
    from retriever.core.prompts import get_template
    from retriever.encoders.options import DEFAULT_TEMPLATE
    from retriever.encoders.sources import find_source
    from retriever.encoders.tokenizer_files import read_tokenizer
    from retriever.training.prompt_batches import PromptTokeniser
    from retriever.training.rows import read_training_rows

    rows = read_training_rows([str(one) for one in sorted(folder.glob("*.jsonl*"))]).rows
    tokeniser = PromptTokeniser(
        read_tokenizer(find_source("smollm2-135m").folder).limited(most), get_template(DEFAULT_TEMPLATE)
    )
    asked = Counter(row.text for row in rows)
    texts = list(asked)
    together = sum(math.ceil(count / QUESTIONS) for count in asked.values())
    lengths = [min(most, length) for length in tokeniser.tokenizer.count(texts)]
    around = [tokeniser.length_around(row.instruction) for row in rows]
    answers = [len(one) for one in tokeniser.answers([row.answer for row in rows])]
    return Tokens(
        sum(lengths) / len(texts),
        sum(around) / len(rows),
        float(tokeniser.length_around("")),
        sum(answers) / len(rows),
        len(rows) / together,
    )


MIXTURE = Tokens(text=46.3, around=23.9, plain=22.0, answer=2.4, questions=3.8)
"""`--count` over the rows that `mixture.py` makes of 6,400 texts, 23 November 2026."""


def main() -> None:
    """Print the table, or the mean tokens of rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flops", type=float, default=5e13, help="Floating-point operations a second.")
    parser.add_argument("--rows", type=int, default=ROWS, help="Rows learned from.")
    parser.add_argument("--count", type=Path, help="A folder of rows: print their mean tokens instead.")
    options = parser.parse_args()
    if options.count:
        print(count(options.count))
        return
    header = ["recipe", "backbone", "million parameters", "trained", "MiB a token", "GiB: mean texts, longest"]
    header += ["TFLOP a row", f"minutes for {options.rows:,} rows at {options.flops / 1e12:g} TFLOP/s"]
    print("\n".join(table(header, list(costs(SHAPES, MIXTURE, options.flops, options.rows)))))


if __name__ == "__main__":
    main()
