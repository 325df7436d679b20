"""How fast texts are encoded: against SentenceTransformer, and what extra work costs.

    python benchmarks/encode.py --corpus CORPUS.jsonl --output benchmarks/results/encode.json

All ratios are medians over rounds in which the calls are timed in turn.
"""

import argparse
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from common import median_ratio, peak_rss_mib, read_texts, time_alternating, write
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

from retriever.encoders.backbone import Backbone, load_backbone
from retriever.encoders.base import PromptEncoder
from retriever.encoders.methods import EncoderOptions, build

INSTRUCTIONS = (
    "What kind of product is this review about?",
    "How does the customer feel about the product?",
    "What broke or went wrong?",
    "Who is the product for?",
)
BATCH_SIZES = (8, 16, 32, 64, 128)


def against_sentence_transformer(encoder: PromptEncoder, texts: Sequence[str], rounds: int) -> dict[str, Any]:
    """Compare with SentenceTransformer.encode: same weights, dtype, pooling (last token) and rendered texts."""
    backbone = encoder.backbone
    # Left to itself it would wrap every text in the backbone's chat template, and read 22 tokens more than we do.
    plain_text = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
    module = Transformer(
        str(backbone.source.folder),
        model_kwargs={"dtype": backbone.dtype},
        modality_config=plain_text,
        module_output_name="token_embeddings",
    )
    module.tokenizer.padding_side = "left"
    peer = SentenceTransformer(modules=[module, Pooling(backbone.dim, "lasttoken"), Normalize()])
    prefix, suffix = encoder.template.prefix(INSTRUCTIONS[0]), encoder.template.suffix(INSTRUCTIONS[0])
    prompts = [f"{prefix}{text}{suffix}" for text in texts]

    def run_peer(size: int) -> Callable[[], object]:
        return lambda: peer.encode(prompts, batch_size=size, show_progress_bar=False)

    def ours() -> object:
        return encoder.encode(texts, instruction=INSTRUCTIONS[0])

    tried = time_alternating({str(size): run_peer(size) for size in BATCH_SIZES}, 1)
    best = int(min(tried, key=lambda size: tried[size][0]))
    seconds = time_alternating({"peer": run_peer(best), "ours": ours}, rounds)
    theirs = torch.from_numpy(peer.encode(prompts, batch_size=best))
    cosines = (theirs * torch.from_numpy(encoder.encode(texts, instruction=INSTRUCTIONS[0]))).sum(dim=1)
    tokens = sum(map(len, module.tokenizer(prompts)["input_ids"]))
    return {
        "texts": len(texts),
        "tokens": tokens,
        "peer_seconds_by_batch_size": {size: round(took[0], 2) for size, took in tried.items()},
        "peer_best_batch_size": best,
        "peer_tokens_per_second": round(tokens / sorted(seconds["peer"])[rounds // 2]),
        "our_tokens_per_second": round(tokens / sorted(seconds["ours"])[rounds // 2]),
        "speedup": median_ratio(seconds["peer"], seconds["ours"]),
        "lowest_cosine_between_both": round(float(cosines.min()), 5),
    }


def fan_out(encoder: PromptEncoder, texts: Sequence[str], rounds: int) -> dict[str, Any]:
    """Compare four instructions in one pass with one, at 40 and 120 tokens a text."""
    report = {}
    for length, count in ((40, 192), (120, 96)):
        cut = texts_of(encoder.backbone, texts, length, count)
        calls: dict[str, Callable[[], object]] = {
            "one": lambda cut=cut: encoder.encode(cut, instruction=INSTRUCTIONS[0]),
            "four": lambda cut=cut: encoder.encode_many(cut, INSTRUCTIONS),
        }
        seconds = time_alternating(calls, rounds)
        report[str(length)] = {"texts": count, "four_over_one": median_ratio(seconds["four"], seconds["one"])}
    return report


def soft_steps(backbone: Backbone, texts: Sequence[str], rounds: int) -> dict[str, Any]:
    """Compare GIRCSE at K = 20 with K = 1 at 120 tokens a text."""
    cut = texts_of(backbone, texts, 120, 96)
    encoders = {steps: build("gircse", backbone, EncoderOptions(steps=steps)) for steps in (1, 20)}
    calls = {
        str(k): lambda encoder=encoder: encoder.encode(cut, instruction=INSTRUCTIONS[0])
        for k, encoder in encoders.items()
    }
    seconds = time_alternating(calls, rounds)
    return {"texts": len(cut), "k20_over_k1": median_ratio(seconds["20"], seconds["1"])}


def texts_of(backbone: Backbone, texts: Sequence[str], length: int, count: int) -> list[str]:
    """Return distinct texts of about ``length`` tokens, cut out of the corpus."""
    words = itertools.chain.from_iterable(text.split() for text in itertools.cycle(texts))
    pieces = []
    while len(pieces) < count:
        piece = list(itertools.islice(words, length))
        while backbone.tokenizer.count([" ".join(piece)])[0] > length:
            piece.pop()
        pieces.append(" ".join(piece))
    return pieces


def main() -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=Path("examples/reviews.jsonl"))
    parser.add_argument("--limit", type=int, default=300, help="Texts compared with SentenceTransformer.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    backbone = load_backbone("smollm2-135m")
    backbone.pack()
    encoder = build("inbedder", backbone, EncoderOptions())
    texts = read_texts(options.corpus, options.limit)
    report: dict[str, Any] = {"dtype": encoder.spec.dtype, "torch_threads": torch.get_num_threads()}
    report["sentence_transformer"] = against_sentence_transformer(encoder, texts, options.rounds)
    report["four_instructions"] = fan_out(encoder, texts, options.rounds)
    report["gircse"] = soft_steps(backbone, texts, options.rounds)
    write("encode", options, {**report, "peak_rss_mib": peak_rss_mib()})


if __name__ == "__main__":
    main()
