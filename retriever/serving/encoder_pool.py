"""Encoders that all clients of a process share."""

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from retriever import load_encoder
from retriever.core.protocols import Encoder
from retriever.core.types import JSON
from retriever.index import encoding
from retriever.index.model_names import DEFAULT, default_identity
from retriever.index.readers import load_plain


class EncoderPool:
    """Loaded encoders by their description, each loaded once, by the first thread that asks; safe in all threads.

    Who asks for an encoder that is being loaded waits for it; who asks for another one does not. An encoder stays
    loaded for as long as the pool lives. One that cannot be loaded is tried anew at the next call.

    Args:
        load: gives the encoder of an index's description.
        wrap: what is kept and given instead of an encoder that was loaded.
    """

    def __init__(
        self,
        load: encoding.Loader = encoding.load_described,
        *,
        wrap: Callable[[Encoder], Encoder] = lambda encoder: encoder,
    ) -> None:
        self._load = load
        self._wrap = wrap
        self._lock = threading.Lock()
        self._loaded: dict[str, Future[Encoder]] = {}

    def described(self, description: Mapping[str, JSON]) -> Encoder:
        """Return the encoder that an index was made with.

        Raises:
            EncoderError: it cannot be loaded, or is another one by now.
        """
        return self._once(_name(description), lambda: self._wrap(self._load(description)))

    def default(self) -> Encoder:
        """Return the encoder of new indexes; after another model was made the default, that one.

        Raises:
            EncoderError: it cannot be loaded.
        """
        return self._once(f"default: {default_identity()}", self._default)

    def named(self, name: str) -> Encoder:
        """Return an encoder by its name; ``default`` is that of new indexes.

        Raises:
            EncoderError: it cannot be loaded.
        """
        return self.default() if name == DEFAULT else self._once(f"named: {name}", lambda: self._shared(name))

    def plain(self) -> Encoder:
        """Return the plain reader of new indexes.

        Raises:
            EncoderError: it cannot be loaded.
        """
        return self._once("plain", self._plain)

    def _plain(self) -> Encoder:
        return self._same(load_plain())

    def _default(self) -> Encoder:
        return self._same(load_encoder())

    def _shared(self, name: str) -> Encoder:
        return self._same(load_encoder(name))

    def _same(self, encoder: Encoder) -> Encoder:
        """Return the object that indexes made by this encoder get too."""
        return self._once(_name(encoding.describe(encoder)), lambda: self._wrap(encoder))

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
