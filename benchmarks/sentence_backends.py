r"""How fast texts become vectors: ours against SentenceTransformer by each backend, `default` against `instemb`.

    pip install onnx onnxruntime openvino
    python benchmarks/sentence_backends.py examples/reviews.jsonl:120 CORPUS.jsonl:200 \
        --output benchmarks/results/sentence_backends.json

Everything is measured with all that the processor has, and once more with libraries limited to AVX2. A ratio is the
other's time by the clock by ours, the median over rounds in turns. A backend has the batch size that is fastest for
it, and all have as many threads as torch (`OMP_NUM_THREADS`). The weights are those of all-MiniLM-L6-v2; a backend
whose package is missing is left out.

`SentenceTransformer(backend=...)` loads ONNX and OpenVINO by `optimum`, which knows no transformers as new as ours. So
the runtimes are put in the place of the model that it calls, and all else (tokens, batches, pooling) stays its own.
ONNX Runtime has no setting for AVX2, and OpenVINO heeds oneDNN's for a part of what it does: on a processor with
AVX-512 both use it all the same.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from common import median_ratio, read_texts, time_alternating, write
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers import AutoModel
from transformers.modeling_outputs import BaseModelOutput

from retriever.core.protocols import Encoder
from retriever.encoders.catalog import load_encoder
from retriever.encoders.kernels import multiplies_bfloat16
from retriever.encoders.sentence_encoder import SentenceEncoder

KINDS = {
    "all of it": {},
    "AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
}
"""Parts of the processor to use, and the settings that say so: of oneDNN (torch and OpenVINO), torch and MKL."""

QUESTION = "What kind of product is this review about?"
BATCH_SIZES = (8, 16, 32, 64)
LEAST_COSINE = 0.99
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
EXAMPLE = (torch.ones(2, 8, dtype=torch.long),) * len(INPUTS)
Arrays = Mapping[str, np.ndarray[Any, Any]]


class Plain(nn.Module):
    """A BERT that takes and returns tensors alone, as exporters want it."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.bert = AutoModel.from_pretrained(folder, trust_remote_code=False, attn_implementation="eager").eval()

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the last states (n, T, d) of `INPUTS`, (n, T) each."""
        states: Tensor = self.bert(**dict(zip(INPUTS, inputs, strict=True))).last_hidden_state
        return states


class Exported(nn.Module):
    """Stands in the place of the BERT in a `SentenceTransformer`, and has another runtime compute it."""

    def __init__(self, run: Callable[[Arrays], np.ndarray[Any, Any]], config: object) -> None:
        super().__init__()
        self.run, self.config = run, config

    def forward(self, **inputs: Any) -> BaseModelOutput:  # noqa: ANN401 - more than `INPUTS` is given, and left out
        """Return the last states (n, T, d)."""
        states = self.run({name: inputs[name].numpy() for name in INPUTS})
        return BaseModelOutput(last_hidden_state=torch.from_numpy(states))


def peers(folder: Path) -> Iterator[tuple[str, SentenceTransformer]]:
    """Yield the published model by name of the backend that computes it."""
    for dtype in _formats():
        yield f"torch, {dtype}", _published(folder, dtype)
    runs = {}
    if find_spec("onnxruntime"):
        runs |= _onnx(folder)
    if find_spec("openvino"):
        runs |= _openvino(folder)
    for name, run in runs.items():
        model = _published(folder, "float32")
        model[0].model = Exported(run, model[0].model.config)
        yield name, model


def _formats() -> list[str]:
    """Return the number formats that the processor multiplies; another takes many times as long."""
    return ["float32", "bfloat16"] if multiplies_bfloat16() else ["float32"]


def _published(folder: Path, dtype: str) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": dtype}, local_files_only=True)


def _onnx(folder: Path) -> dict[str, Callable[[Arrays], Any]]:
    """Return what runs the model in ONNX Runtime: as exported, and fused as SentenceTransformer's exporter does."""
    import onnxruntime
    from onnxruntime.transformers.optimizer import optimize_model

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    sizes = {name: {0: "texts", 1: "tokens"} for name in (*INPUTS, "states")}
    named = {"input_names": list(INPUTS), "output_names": ["states"], "dynamic_axes": sizes}
    model = Plain(folder)
    with tempfile.TemporaryDirectory() as made:
        files = {"ONNX": f"{made}/plain.onnx", "ONNX, fused": f"{made}/fused.onnx"}
        torch.onnx.export(model, EXAMPLE, files["ONNX"], opset_version=17, dynamo=False, **named)
        heads, width = model.bert.config.num_attention_heads, model.bert.config.hidden_size
        fused = optimize_model(files["ONNX"], "bert", num_heads=heads, hidden_size=width)
        fused.save_model_to_file(files["ONNX, fused"])
        sessions = {
            name: onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
            for name, file in files.items()
        }
    return {name: lambda inputs, s=session: s.run(None, inputs)[0] for name, session in sessions.items()}


def _openvino(folder: Path) -> dict[str, Callable[[Arrays], Any]]:
    """Return what runs the model in OpenVINO, by number format."""
    import openvino

    graph = openvino.convert_model(Plain(folder), example_input=EXAMPLE)
    runs = {}
    for dtype in _formats():
        settings = {
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[dtype],
            "PERFORMANCE_HINT": "LATENCY",
        }
        request = openvino.Core().compile_model(graph, "CPU", settings).create_infer_request()
        runs[f"OpenVINO, {dtype}"] = lambda inputs, r=request: r.infer(list(inputs.values()))[0].copy()
    return runs


def against_backends(
    ours: Encoder, models: Mapping[str, SentenceTransformer], texts: Sequence[str], rounds: int
) -> dict[str, Any]:
    """Compare reading texts with what every backend takes at its best batch size."""
    report, vectors = {}, ours.encode(texts)
    for name, model in models.items():

        def run(size: int, model: SentenceTransformer = model) -> Callable[[], Any]:
            return lambda: model.encode(list(texts), batch_size=size, normalize_embeddings=True)

        lowest = float((run(BATCH_SIZES[0])() * vectors).sum(axis=1).min())
        if lowest < LEAST_COSINE:
            raise ValueError(f"{name}: a vector has a cosine of {lowest:.3f} with ours")
        tried = time_alternating({str(size): run(size) for size in BATCH_SIZES}, 1)
        best = int(min(tried, key=lambda size: tried[size][0]))
        seconds = time_alternating({"ours": lambda: ours.encode(texts), "theirs": run(best)}, rounds)
        report[name] = {
            "ratio": median_ratio(seconds["theirs"], seconds["ours"]),
            "our_seconds": round(float(np.median(seconds["ours"])), 3),
            "their_seconds": round(float(np.median(seconds["theirs"])), 3),
            "batch_size": best,
            "lowest_cosine": round(lowest, 4),
        }
    return {"best of them": min(entry["ratio"] for entry in report.values()), **report}


def shipped(encoders: Mapping[str, Encoder], texts: Sequence[str], rounds: int) -> dict[str, Any]:
    """Compare `default` with `instemb`, which read texts under a question, with words."""

    def run(encoder: Encoder) -> Callable[[], object]:
        return lambda: encoder.encode_with_words(texts, instruction=QUESTION)

    seconds = time_alternating({name: run(encoder) for name, encoder in encoders.items()}, rounds)
    return {
        "ratio": median_ratio(seconds["instemb"], seconds["default"]),
        **{f"{name}_seconds": round(float(np.median(took)), 3) for name, took in seconds.items()},
        "fingerprints": {name: encoder.fingerprint[:12] for name, encoder in encoders.items()},
    }


def measure(corpora: Mapping[str, Sequence[str]], rounds: int) -> dict[str, Any]:
    """Measure over every corpus, in a process whose libraries were not loaded before."""
    ours = SentenceEncoder("all-minilm-l6-v2")
    models = dict(peers(ours.source.folder))
    encoders = {name: load_encoder(name) for name in ("default", "instemb")}
    report: dict[str, Any] = {"torch": torch.backends.cpu.get_cpu_capability(), "threads": torch.get_num_threads()}
    for name, texts in corpora.items():
        report[name] = {
            "texts": len(texts),
            "tokens": sum(ours.count_tokens(texts)),
            "SentenceTransformer by ours": against_backends(ours, models, texts, rounds),
            "instemb by default": shipped(encoders, texts, rounds),
        }
    return report


def main() -> None:
    """Parse the options, measure in fresh processes, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="*", default=["examples/reviews.jsonl:120"], help="FILE:TEXTS")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=KINDS, help="measure with this part of the processor")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    given = (corpus.rpartition(":") for corpus in options.corpora)
    corpora = {Path(file).name: read_texts(Path(file), int(most)) for file, _, most in given}
    options.corpora = list(corpora)
    report = {}
    for kind in [options.only] if options.only else KINDS:
        # The child's libraries read the settings when they are loaded.
        with patch.dict(os.environ, KINDS[kind]), ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            report[kind] = pool.submit(measure, corpora, options.rounds).result()
    write("sentence_backends", options, report)


if __name__ == "__main__":
    main()
