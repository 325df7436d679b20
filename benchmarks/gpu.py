"""What a GPU gives: documents read a second, its share of the peak, FAISS on it, its values, and training.

    python benchmarks/gpu.py --output gpu.json

One command, no network, and beside the package and its model nothing to carry: the texts are made here. Every part is
run on the processor, and where there is a CUDA device on that too; a part that fails says why, and the others go on. On
a machine without one the answer has the processor's half, and says that the other was not run.
"""

import argparse
import os
import statistics
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from common import peak_rss_mib, time_alternating, write

from retriever.core.encoder import Encoder
from retriever.core.types import Embeddings

INSTRUCTION = "What kind of product is this review about?"
WORDS = (
    "the kettle arrived late and leaks at the lid but my sister loves its colour so we keep it for tea every morning "
    "although a toy drone that was broken in the box made everybody sad until the shop sent another one which flies"
).split()
MOST_BYTES = 64 << 20
"""Of what a machine needs beside the package and its models: nothing is read but these."""


def texts(count: int, tokens: int, seed: int = 0) -> list[str]:
    """Return different texts of about so many tokens."""
    rng = np.random.default_rng(seed)
    return [f"{number}: " + " ".join(rng.choice(WORDS, int(0.8 * tokens))) for number in range(count)]


def waited(device: str) -> None:
    """Wait for what a device has still to do."""
    if device == "cuda":
        torch.cuda.synchronize()


def peak(device: str, rounds: int) -> float:
    """Return the floating-point operations a second of large matrix products in the format that models run in."""
    size = 8192 if device == "cuda" else 1024
    one = torch.randn(size, size, device=device, dtype=torch.bfloat16)

    def product() -> None:
        torch.mm(one, one)
        waited(device)

    seconds = time_alternating({"product": product}, max(rounds, 5))["product"]
    return float(2 * size**3 / min(seconds))


def parameters(encoder: Encoder) -> int | None:
    """Return how many weights a text token is multiplied with, where the model can be looked into."""
    backbone = getattr(encoder, "backbone", None)
    model = getattr(backbone, "model", None)
    if model is None:
        return None
    layers = [one for one in model.modules() if "Linear" in type(one).__name__]
    return sum(one.in_features * one.out_features for one in layers)


def reading(name: str, devices: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    """Return documents and tokens a second on each device, the share of its peak, and how the vectors agree."""
    from retriever.encoders.catalog import load_encoder

    report: dict[str, Any] = {}
    vectors: dict[str, Embeddings] = {}
    for device in devices:
        encoder = load_encoder(name, device=device)
        count = options.texts if device == "cpu" else 40 * options.texts
        asked = texts(count, options.tokens)
        instruction = INSTRUCTION if encoder.spec.template else ""
        tokens = sum(encoder.count_tokens(asked))

        def read(
            encoder: Encoder = encoder, asked: list[str] = asked, instruction: str = instruction, device: str = device
        ) -> None:
            encoder.encode(asked, instruction=instruction)
            waited(device)

        seconds = statistics.median(time_alternating({"read": read}, options.rounds)["read"])
        weights, most = parameters(encoder), peak(device, options.rounds)
        report[device] = {
            "documents": count,
            "documents_per_second": round(count / seconds, 2),
            "text_tokens_per_second": round(tokens / seconds),
            "peak_tflops": round(most / 1e12, 3),
            "share_of_peak": None if weights is None else round(2 * weights * tokens / seconds / most, 4),
        }
        vectors[device] = encoder.encode(asked[: options.texts], instruction=instruction)
    if len(vectors) == 2:
        cosines = (vectors["cpu"] * vectors["cuda"]).sum(axis=1)
        report["lowest_cosine_gpu_with_cpu"] = round(float(cosines.min()), 6)
    return report


def searching(devices: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    """Return queries a second of exact search on each device, and how the answers agree."""
    from vector_search import make_vectors

    from retriever.vectors.faiss.building import build_index, sample_queries
    from retriever.vectors.faiss.gpu import place

    count, dim = options.vectors, 384
    index = build_index(np.arange(count), make_vectors(count, dim, 500, 0), dim, factory="SQfp16").index
    queries = sample_queries(index, size=256, seed=1)
    report: dict[str, Any] = {"vectors": count, "dim": dim}
    found = {}
    for device in devices:
        placed = place(index, "cuda" if device == "cuda" else "cpu")
        few = queries[: 8 if device == "cpu" else 256]
        calls: dict[str, Callable[[], object]] = {
            "batch": lambda placed=placed, few=few: placed.search(few, 10),
            "single": lambda placed=placed: [placed.search(one[None], 10) for one in queries[:4]],
        }
        seconds = {name: statistics.median(took) for name, took in time_alternating(calls, options.rounds).items()}
        report[device] = {
            "queries_per_second": round(len(few) / seconds["batch"], 2),
            "single_ms": round(1000 * seconds["single"] / 4, 3),
        }
        found[device] = placed.search(queries[:8], 10)
    if len(found) == 2:
        one, other = found["cpu"], found["cuda"]
        report["same_ids"] = round(float(np.mean(one.ids == other.ids)), 5)
        report["largest_score_difference"] = float(np.abs(one.scores - other.scores).max())
    return report


def training(devices: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    """Return tokens a second of training steps on each device, optimiser included."""
    from retriever.core.prompts import get_template
    from retriever.encoders.transformers_backbone import load_trainable
    from retriever.training.adapters import AdapterSettings, attach
    from retriever.training.merging import merged
    from retriever.training.objectives.base import Learner
    from retriever.training.objectives.batching import BatchSettings
    from retriever.training.objectives.instemb import InstEmbObjective, InstEmbSettings
    from retriever.training.prompt_batches import PromptTokeniser
    from retriever.training.rows import TrainingRow

    report: dict[str, Any] = {}
    for device in devices:
        count = options.training_texts if device == "cpu" else 8 * options.training_texts
        asked = texts(count, 40, seed=3)
        rows = [
            TrainingRow(text, question, text.split()[3 + place], group=question, file="made")
            for text in asked
            for place, question in enumerate(("What is it?", "Who wrote it?", "What broke?", "How do they feel?"))
        ]
        torch.manual_seed(0)
        adapted = attach(
            load_trainable("smollm2-135m", device=device, dtype="bfloat16"),
            AdapterSettings(rank=20, alpha=40, look_ahead=2),
        )
        tokeniser = PromptTokeniser(adapted.backbone.tokenizer.limited(112), get_template("input-first"))
        settings = InstEmbSettings(distillation=("ce",), views=("document",), compared="daap", form="outside")
        batches = BatchSettings(texts=count, questions=4, held_tokens=16_384)
        objective = InstEmbObjective(Learner(adapted, tokeniser, 0), rows, settings, batches)
        optimiser = torch.optim.AdamW(adapted.parameters.values(), lr=1e-6)
        tokens = sum(adapted.backbone.tokenizer.count([f"{row.text} {row.instruction} {row.answer}" for row in rows]))

        def step(adapted: Any = adapted, objective: Any = objective, optimiser: Any = optimiser) -> None:  # noqa: ANN401
            optimiser.zero_grad(set_to_none=True)
            with merged(adapted.backbone):
                objective.backward(range(len(rows)))  # noqa: B023 - called at once
            optimiser.step()

        seconds = min(time_alternating({"step": step}, options.steps)["step"])
        waited(device)
        report[device] = {"rows": len(rows), "tokens": tokens, "tokens_per_second": round(tokens / seconds)}
    return report


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=24, help="Texts the processor reads; a GPU reads forty times it.")
    parser.add_argument("--tokens", type=int, default=80, help="Of a text, about.")
    parser.add_argument("--vectors", type=int, default=100_000, help="Vectors that are searched.")
    parser.add_argument("--training-texts", type=int, default=4, help="Texts of a step, each under four questions.")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=["minilm", "default"])
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(argv)
    cuda = torch.cuda.is_available()
    devices = ["cpu", "cuda"] if cuda else ["cpu"]
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        **{f"reading: {name}": lambda name=name: reading(name, devices, options) for name in options.models},
        "searching": lambda: searching(devices, options),
        "training": lambda: training(devices, options),
    }
    report: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name() if cuda else None,
        "note": "" if cuda else "No CUDA device here: the GPU's half of this benchmark has never been run.",
    }
    for name, part in parts.items():
        started = time.perf_counter()
        try:
            report[name] = part()
        except Exception as error:  # one that fails does not cost the figures of the others
            traceback.print_exc()
            report[name] = {"failed": f"{type(error).__name__}: {error}"}
        report[name]["seconds_in_all"] = round(time.perf_counter() - started, 1)
    write("gpu", options, {**report, "peak_rss_mib": peak_rss_mib()})


if __name__ == "__main__":
    main()
