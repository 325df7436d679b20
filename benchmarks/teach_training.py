"""The two peers of `teach.py` that train a model: SetFit's recipe on MiniLM, and `retriever finetune`."""

import json
import tempfile
from itertools import islice
from pathlib import Path

import numpy as np
from teach import Draw, Given, by_logistic, untaught

from retriever import load_encoder
from retriever.encoders.catalog import resolve_name
from retriever.encoders.sources import find_source
from retriever.index.readers import DEFAULT_PLAIN
from retriever.training.run.checks import LEAST_ROWS
from retriever.training.run.finetuning import FinetuneRequest, finetune

PAIRS = 20
"""Pairs of one answer, and of two, for each example (SetFit's number of iterations)."""
BATCH, RATE = 16, 2e-5


def setfit(draw: Draw) -> Given:
    """Fine-tune MiniLM on pairs of examples, towards a cosine of 1 or 0; then logistic regression."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.manual_seed(draw.seed)
    source = find_source(resolve_name(DEFAULT_PLAIN).partition(":")[2])
    model = SentenceTransformer(str(source.folder), device="cpu")
    texts = [draw.kind.texts[row] for row in draw.examples]
    pairs = drawn_pairs(draw.read.labels[draw.examples], draw.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    rows = iter(pairs)
    while batch := list(islice(rows, BATCH)):
        sides = [model(model.tokenize([texts[pair[side]] for pair in batch]))["sentence_embedding"] for side in (0, 1)]
        wanted = torch.tensor([float(pair[2]) for pair in batch])
        loss = torch.nn.functional.mse_loss(torch.cosine_similarity(*sides), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    every = np.asarray(model.encode(list(draw.kind.texts), normalize_embeddings=True), dtype=np.float32)
    return by_logistic(every[draw.examples], every[draw.judged], draw)


def drawn_pairs(labels: np.ndarray, seed: int) -> list[tuple[int, int, bool]]:
    """Return pairs of rows and whether they have one answer: `PAIRS` of either sort for each row, in random order."""
    generator, found = np.random.default_rng(seed), []
    for row, label in enumerate(labels):
        same = np.flatnonzero((labels == label) & (np.arange(len(labels)) != row))
        for others, alike in ((same, True), (np.flatnonzero(labels != label), False)):
            found += [(row, int(one), alike) for one in generator.choice(others, PAIRS)]
    return [found[one] for one in generator.permutation(len(found))]


def finetuned(draw: Draw) -> Given | None:
    """Fine-tune the question reader on the examples; then the nearest mean in its view. None where they are too few."""
    if len(draw.examples) < LEAST_ROWS:
        return None
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.jsonl"
        answers = [draw.kind.labels[row] for row in draw.examples]
        texts = [draw.kind.texts[row] for row in draw.examples]
        lines = [
            json.dumps({"text": text, "question": draw.kind.question, "answer": answer})
            for text, answer in zip(texts, answers, strict=True)
        ]
        rows.write_text("\n".join(lines), encoding="utf-8")
        output = Path(folder) / "model"
        finetune(FinetuneRequest([str(rows)], output, base="pretrained:default", seed=draw.seed, promote=False))
        encoder = load_encoder(str(output))
        asked = encoder.encode(list(draw.kind.texts), instruction=draw.kind.question)
    read = draw.read
    changed = type(read)(read.labels, asked, read.unasked, read.plain, read.names, read.plain_names)
    return untaught(Draw(draw.kind, changed, draw.examples, draw.judged, draw.seed))
