"""What more steps bring a GIRCSE encoder: suites at K = 1 to 20, all from runs of 20 steps.

    python benchmarks/refinement_steps.py DATA --limit 200 --output benchmarks/results/refinement_steps.json

The vector after k steps is a mean on the way to every larger K, so one run serves them all.
"""

import argparse
from pathlib import Path
from typing import Any, cast

from common import headline_scores, write
from shared_passes import SharedPasses

from retriever import load_encoder
from retriever.core.paths import cache_dir
from retriever.encoders.gircse import GircseEncoder
from retriever.evaluation.run.embedding_cache import EmbeddingCache

STEPS = (1, 2, 3, 5, 10, 20)
SUITES = ("awareness", "ice", "generic")


def main() -> None:
    """Parse the options, measure the most steps first, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", default="pretrained:gircse")
    parser.add_argument("--limit", type=int, default=200, help="Most items a task looks at.")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    encoder = cast("GircseEncoder", load_encoder(options.encoder, steps=max(STEPS)))
    cache = EmbeddingCache(cache_dir() / "evaluation")
    found: dict[int, dict[str, Any]] = {}
    for steps in sorted(STEPS, reverse=True):
        asked = (
            SharedPasses.sharing_steps(encoder, cache, STEPS)
            if steps == max(STEPS)
            else encoder.reconfigured(steps=steps)
        )
        found[steps] = headline_scores(asked, options.data, SUITES, limit=options.limit)
    write("refinement_steps", options, {"steps": {str(steps): found[steps] for steps in STEPS}})


if __name__ == "__main__":
    main()
