"""A scikit-learn transformer from texts to vectors, for classifiers, UMAP, BERTopic and whatever else takes one."""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from retriever import load_encoder
from retriever.core.errors import UsageError
from retriever.core.protocols import Encoder
from retriever.core.text import require_text
from retriever.core.types import Embeddings


class RetrieverEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Embeds texts under an instruction; nothing is learned from them.

    ``make_pipeline(RetrieverEncoder(instruction="What broke?"), LogisticRegression())`` is a classifier of texts, and
    ``BERTopic(embedding_model=make_pipeline(RetrieverEncoder(...)))`` takes it as its model. Pickles hold the settings;
    the model is loaded again when it is next needed.

    Args:
        instruction: what to look at in every text, in plain words; empty for the model's default.
        model: a name of ``retriever models list``, or a checkpoint folder.
        device: where to run: auto, cpu or cuda.
        batch_size: most texts read together; None lets the model decide.

    Attributes:
        n_features_out_: length of a vector.
        fingerprint_: of the model; vectors of two fingerprints are never to be compared.
    """

    def __init__(
        self, instruction: str = "", model: str = "default", device: str = "auto", batch_size: int | None = None
    ) -> None:
        self.instruction = instruction
        self.model = model
        self.device = device
        self.batch_size = batch_size

    def fit(self, X: Iterable[str], y: object = None) -> Self:  # noqa: N803 - scikit-learn's name
        """Load the model; nothing is learned from the texts. Raise `UsageError` where they are no texts."""
        _texts(X)
        encoder = self._encoder()
        self.n_features_out_ = encoder.dim
        self.fingerprint_ = encoder.fingerprint
        return self

    def transform(self, X: Iterable[str]) -> Embeddings:  # noqa: N803
        """Return vectors of length 1: (n, `n_features_out_`) float32. Raise `UsageError` where they are no texts."""
        check_is_fitted(self)
        return self._encoder().encode(_texts(X), instruction=self.instruction, batch_size=self.batch_size)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Name the coordinates."""
        check_is_fitted(self)
        return np.asarray([f"retriever{place}" for place in range(self.n_features_out_)], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.no_validation = True  # of numbers: what comes in is text
        tags.transformer_tags.preserves_dtype = []
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_loaded"}

    def _encoder(self) -> Encoder:
        """Return the model of the settings as they are now, loaded once."""
        settings = (self.model, self.device)
        known: tuple[tuple[str, str], Encoder] | None = getattr(self, "_loaded", None)
        if known is None or known[0] != settings:
            known = settings, load_encoder(self.model, device=self.device)
            self._loaded = known
        return known[1]


def _texts(given: Iterable[str]) -> list[str]:
    """Return texts as a list: of a list, a series, an array of one dimension or one column; else raise `UsageError`."""
    if isinstance(given, str):
        raise UsageError("The texts are one string.", hint="Give a list of texts.")
    array = np.asarray(given if hasattr(given, "__array__") else list(given), dtype=object)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    wrong = None if array.ndim == 1 else f"an array of {array.ndim} dimensions"
    wrong = wrong or next((type(value).__name__ for value in array if not isinstance(value, str)), None)
    if wrong is not None:
        raise UsageError(f"RetrieverEncoder takes texts, not {wrong}.", hint="Give a list of str, or a column of them.")
    texts: list[str] = array.tolist()
    require_text(*texts)
    return texts
