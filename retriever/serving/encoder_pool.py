"""Encoders that all clients of a process share."""

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from retriever import load_encoder
from retriever.core.protocols import Encoder
from retriever.core.types import JSON
from retriever.index import encoding
from retriever.index.model_names import default_identity
from retriever.index.readers import load_plain


class EncoderPool:
    """Loaded encoders by their description, each loaded once, by the first thread that asks; safe in all threads.

    Who asks for an encoder that is being loaded waits for it; who asks for another one does not. An encoder stays
    loaded for as long as the pool lives. One that cannot be loaded is tried anew at the next call.
    """

    def __init__(self, load: encoding.Loader = encoding.load_described) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._loaded: dict[str, Future[Encoder]] = {}

    def described(self, description: Mapping[str, JSON]) -> Encoder:
        """Return the encoder that an index was made with.

        Raises:
            EncoderError: it cannot be loaded, or is another one by now.
        """
        return self._once(_name(description), lambda: self._load(description))

    def default(self) -> Encoder:
        """Return the encoder of new indexes; after another model was made the default, that one.

        Raises:
            EncoderError: it cannot be loaded.
        """
        return self._once(f"default: {default_identity()}", self._default)

    def plain(self) -> Encoder:
        """Return the plain reader of new indexes.

        Raises:
            EncoderError: it cannot be loaded.
        """
        return self._once("plain", self._plain)

    def _plain(self) -> Encoder:
        encoder = load_plain()
        return self._once(_name(encoding.describe(encoder)), lambda: encoder)

    def _default(self) -> Encoder:
        encoder: Encoder = load_encoder()
        return self._once(_name(encoding.describe(encoder)), lambda: encoder)  # the same object for indexes made by it

    def _once(self, name: str, load: Callable[[], Encoder]) -> Encoder:
        with self._lock:
            found = self._loaded.get(name)
            mine = found is None
            if found is None:
                found = self._loaded[name] = Future()
        if mine:
            try:
                found.set_result(load())
            except BaseException as error:
                with self._lock:
                    del self._loaded[name]
                found.set_exception(error)
        return found.result()


def _name(description: Mapping[str, JSON]) -> str:
    return json.dumps(description, sort_keys=True)
