"""Compare our own forward and backward passes with the library's, each pair in one run, taken in turns.

    python benchmarks/own_kernels.py --output benchmarks/results/own_kernels.json

A ratio is the library's processor time by ours, the median over rounds; cold calls are fresh processes. BERT over texts
is in sentence_backends.py.
"""

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from common import read_texts, write
from transformers.utils import logging

from retriever.core.prompts import get_template
from retriever.encoders.backbone import Backbone, load_backbone
from retriever.encoders.methods import EncoderOptions, build
from retriever.encoders.transformers_backbone import TransformersBackbone, load_trainable
from retriever.training.adapters import AdapterSettings, attach
from retriever.training.merging import merged
from retriever.training.objectives.base import BatchSettings, Learner
from retriever.training.objectives.instemb import InstEmbObjective, InstEmbSettings
from retriever.training.prompt_batches import PromptTokeniser
from retriever.training.rows import TrainingRow

INSTRUCTION = "What kind of product is this review about?"
QUESTIONS = (INSTRUCTION, "How does the customer feel about it?", "What broke or went wrong?", "Who is it for?")

COLD = {
    "bert query": ("minilm", ""),
    "bert query, torch": ("minilm", "import retriever.encoders.bert.encoder as r; r.ARRAY_TOKENS = 0"),
    "llama query": ("default", ""),
    "llama query, theirs": (
        "default",
        "import retriever.encoders.llama as r; r.read_config = lambda given: None",
    ),
    "adapter, PEFT": ("default", "import retriever.encoders.checkpoint as r; r.read_adapter = lambda *given: None"),
}
"""Encoders that read one query in a fresh process, and code that leaves the work to the library."""


def ratios(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Any]:
    """Return the processor seconds of ``ours``, the first, and what every other call takes by it."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for turn in range(rounds):
        for name in list(calls) if turn % 2 == 0 else reversed(calls):
            seconds[name].append(_timed(calls[name]))
    ours = seconds["ours"]
    return {
        "our_seconds": round(statistics.median(ours), 3),
        "ratios": {
            name: round(statistics.median(a / b for a, b in zip(took, ours, strict=True)), 2)
            for name, took in seconds.items()
            if name != "ours"
        },
    }


def _timed(call: Callable[[], object]) -> float:
    """Return the seconds of the processor that a call takes, its child processes included."""
    began = os.times()
    call()
    ended = os.times()
    return sum(ended[:4]) - sum(began[:4])


def cold(texts: list[str], rounds: int) -> dict[str, Any]:
    """Compare a first query in a fresh process."""

    def started(name: str) -> Callable[[], object]:
        encoder, patch = COLD[name]
        code = f"{patch or 'pass'}\nimport retriever\nretriever.load_encoder({encoder!r}).encode_queries(['a kettle'])"
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    bert = {"ours": started("bert query"), "torch": started("bert query, torch")}
    llama = {"ours": started("llama query"), "transformers": started("llama query, theirs")}
    return {
        "bert query": ratios(bert, rounds),
        "llama query": ratios({**llama, "PEFT": started("adapter, PEFT")}, rounds),
    }


def llama_texts(texts: list[str], rounds: int) -> dict[str, Any]:
    """Compare the 135M model over texts with transformers."""
    ours = load_backbone("smollm2-135m")
    theirs = TransformersBackbone.load(ours.source, ours.device, ours.dtype)
    ours.pack()
    return _read({"ours": ours, "transformers": theirs}, [texts], rounds)


def packed_queries(texts: list[str], rounds: int) -> dict[str, Any]:
    """Compare twenty short queries, one after the other, with those of plain linear layers."""
    packed, plain = load_backbone("smollm2-135m"), load_backbone("smollm2-135m")
    packed.pack()
    queries = [[" ".join(text.split()[:4])] for text in texts[:20]]
    return _read({"ours": packed, "plain linear layers": plain}, queries, 2 * rounds)


def _read(backbones: Mapping[str, Backbone], calls: list[list[str]], rounds: int) -> dict[str, Any]:
    """Compare models that read some texts, call by call, under an instruction."""

    def reading(backbone: Backbone) -> Callable[[], object]:
        encoder = build("inbedder", backbone, EncoderOptions())
        return lambda: [encoder.encode(some, instruction=INSTRUCTION) for some in calls]

    return ratios({name: reading(backbone) for name, backbone in backbones.items()}, rounds)


def training(texts: list[str], rounds: int) -> dict[str, Any]:
    """Compare a training step's passes forward and back with those of transformers and PEFT."""
    torch.manual_seed(0)
    adapted = attach(load_trainable("smollm2-135m"), AdapterSettings(look_ahead=2))
    tokeniser = PromptTokeniser(adapted.backbone.tokenizer, get_template("input-first"))
    words = [word.strip(".,") for word in " ".join(texts).split() if len(word) > 4]
    rows = [
        TrainingRow(text, question, words[4 * i + j], group=question, file="rows")
        for i, text in enumerate(texts[:16])
        for j, question in enumerate(QUESTIONS)
    ]
    settings = InstEmbSettings(distillation=("ce",), views=("answer",), compared="daap", form="outside")
    objective = InstEmbObjective(Learner(adapted, tokeniser, 0), rows, settings, BatchSettings())
    batch = objective.batches(0)[0]
    prompts = tokeniser.shared(texts[:16], [list(QUESTIONS)] * 16)
    tokens = sum(len(group.trunk) + sum(len(branch) + 2 for branch in group.branches) for group in prompts.groups)

    def layers() -> None:
        with merged(adapted.backbone):
            adapted.backbone.packed = None
            objective.backward(batch)

    calls = {
        "ours": lambda: merged(adapted.backbone)(objective.backward)(batch),
        "transformers with merged LoRA": layers,
        "transformers and PEFT": lambda: objective.backward(batch),
    }
    report = ratios(calls, rounds)
    adapted.backbone.model.set_attn_implementation("sdpa")
    fused = {"ours": calls["ours"], "transformers and PEFT, fused attention": calls["transformers and PEFT"]}
    report["ratios"] |= ratios(fused, rounds)["ratios"]
    return {**report, "rows": len(batch), "tokens": tokens, "dtype": str(adapted.backbone.dtype)}


def main() -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=Path("examples/reviews.jsonl"))
    parser.add_argument("--limit", type=int, default=100, help="Texts.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="Part of the names of what is measured.")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    logging.disable_progress_bar()
    texts = read_texts(options.corpus, options.limit)
    parts = {
        "training step": training,
        "llama over texts": llama_texts,
        "packed weights, queries": packed_queries,
        "new process": cold,
    }
    report = {name: part(texts, options.rounds) for name, part in parts.items() if options.only in name}
    write("own_kernels", options, {"threads": torch.get_num_threads(), **report})


if __name__ == "__main__":
    main()
