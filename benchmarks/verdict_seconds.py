"""How long it takes to find out whether the model follows a question, on what an index's view holds.

    python benchmarks/verdict_seconds.py CORPUS.jsonl --output benchmarks/results/verdict_seconds.json

A search under each question reads some documents; then the question is judged by these, as in the app.
"""

import argparse
import statistics
import tempfile
import time
from itertools import islice
from pathlib import Path

from common import documents_of, write

from retriever import load_encoder
from retriever.core.requests import SearchRequest
from retriever.index.sources.encoders import load_plain
from retriever.workspace import Index

QUESTIONS = (
    "What is the main reason for the rating?",
    "How does the customer feel about it?",
    "What kind of product is it?",
    "What broke?",
    "Who was it bought for?",
    "What does the customer compare it with?",
)


def main() -> None:
    """Parse the options, index, judge every question, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    question, plain, by_question = load_encoder(), load_plain(), {}
    with tempfile.TemporaryDirectory() as folder, Index(Path(folder), encoder=question, plain=plain) as index:
        index.add(islice(documents_of(options.corpus), options.documents))
        for instruction in QUESTIONS:
            list(index.search_progressively(SearchRequest("it", instruction=instruction)))
            began = time.perf_counter()
            verdict = index.teaching.judge(instruction)
            by_question[instruction] = {
                "seconds": round(time.perf_counter() - began, 2),
                "level": verdict and verdict.level,
            }
    seconds = [figures["seconds"] for figures in by_question.values()]
    report = {
        "fingerprint": question.fingerprint,
        "median_s": round(statistics.median(seconds), 2),
        "slowest_s": max(seconds),
        "questions": by_question,
    }
    write("verdict_seconds", options, report)


if __name__ == "__main__":
    main()
