"""A cross-encoder of sentence-transformers as reranker: it reads query and text together, on this machine."""

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from retriever.core.errors import EncoderError
from retriever.core.fingerprint import json_hash
from retriever.encoders.answers.places import Place
from retriever.encoders.sources import ModelSource, find_source

if TYPE_CHECKING:
    from retriever.encoders.answers.answerer import Spend

_BATCH = 16  # pairs that are read together
_predicting = Lock()  # one search of a process computes at a time


class CrossEncoderReranker:
    """A model with one score a pair; it is loaded when scores are wanted, and shared by the process.

    Args:
        name: what it is asked for by.
        source: a folder, or a name of the model hub.
        device: where to run.

    Raises:
        EncoderError: there is no such model, or it is no cross-encoder.
    """

    def __init__(self, name: str, source: str, *, device: str = "auto") -> None:
        self.place = Place(name)
        self._device = device
        self._source = find_source(source)
        _require_cross_encoder(self._source.folder)
        self.fingerprint = json_hash({"method": "cross-encoder", "backbone": self._source.digest})

    def score(self, query: str, texts: Sequence[str], *, spend: "Spend | None" = None) -> list[float]:
        """Return a score for each text; arguments and errors as for `Reranker.score`."""
        with _predicting:
            model = _load(self._source, self._device)
            pairs = [(query, text) for text in texts]
            try:
                scores = [float(score) for score in model.predict(pairs, batch_size=_BATCH, show_progress_bar=False)]
            except (RuntimeError, ValueError, IndexError) as error:  # memory is short, say
                raise EncoderError(
                    f"{self.place.name} cannot score the texts: {error}", hint="Try --device cpu, or a smaller model."
                ) from error
        if not all(map(math.isfinite, scores)):
            raise EncoderError(f"{self.place.name} gives scores that are no numbers.", hint="Name another model.")
        return scores


@lru_cache(maxsize=2)
def _load(source: ModelSource, device: str) -> Any:  # noqa: ANN401 - a CrossEncoder
    from sentence_transformers import CrossEncoder
    from transformers.utils import logging

    from retriever.encoders.device import pick_device

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        place = str(pick_device(device))
        model = CrossEncoder(str(source.folder), device=place, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise EncoderError(f"{source.folder} cannot be loaded: {error}", hint="Name another cross-encoder.") from error
    if model.num_labels != 1:
        raise EncoderError(
            f"{source.folder} gives {model.num_labels} numbers a pair, and a reranker gives one.",
            hint="Name a cross-encoder that was trained to rank.",
        )
    return model


def _require_cross_encoder(folder: Path) -> None:
    """Refuse a model that was not trained to score pairs: loaded as one, it would score them at random."""
    saved = folder / "config_sentence_transformers.json"
    if _read(folder / "config.json", "architectures").endswith("ForSequenceClassification']"):
        return
    if _read(saved, "model_type") != "CrossEncoder":
        raise EncoderError(
            f"{folder} is no cross-encoder.",
            hint="Name one such as cross-encoder/ms-marco-MiniLM-L6-v2, saved as a folder.",
        )


def _read(file: Path, key: str) -> str:
    try:
        return str(json.loads(file.read_text(encoding="utf-8")).get(key))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, AttributeError) as error:
        raise EncoderError(f"{file} cannot be read: {error}.", hint="Name another cross-encoder.") from error
