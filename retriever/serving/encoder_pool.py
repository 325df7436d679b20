"""Encoders that all clients of a process share."""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from weakref import WeakValueDictionary

from retriever import load_encoder
from retriever.core.protocols import Encoder
from retriever.core.types import JSON
from retriever.index import encoding
from retriever.index.model_names import DEFAULT, default_identity
from retriever.index.sources.encoders import load_plain

MOST_LOADED = 4
"""Encoders that stay loaded: both readers of two kinds of index."""


class EncoderPool:
    """Loaded encoders by their description, each loaded once, by the first thread that asks; safe in all threads.

    Who asks for an encoder that is being loaded waits for it; who asks for another one does not. The ``most`` asked for
    last stay loaded; one beyond them is let go when the last who holds it lets go of it, so none is loaded twice. One
    that cannot be loaded is tried anew at the next call.

    Args:
        load: gives the encoder of an index's description.
        wrap: what is kept and given instead of an encoder that was loaded.
        most: encoders that stay loaded though nobody holds them.
    """

    def __init__(
        self,
        load: encoding.Loader = encoding.load_described,
        *,
        wrap: Callable[[Encoder], Encoder] = lambda encoder: encoder,
        most: int = MOST_LOADED,
    ) -> None:
        self._load = load
        self._wrap = wrap
        self._most = most
        self._lock = threading.Lock()
        self._loading: dict[str, Future[Encoder]] = {}
        self._held: WeakValueDictionary[str, Encoder] = WeakValueDictionary()
        self._recent: OrderedDict[int, Encoder] = OrderedDict()

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
            held = self._held.get(name)
            if held is not None:
                return self._kept(held)
            loading = self._loading.get(name)
            mine = loading is None
            if loading is None:
                loading = self._loading[name] = Future()
        if mine:
            try:
                encoder = load()
            except BaseException as error:
                with self._lock:
                    del self._loading[name]
                loading.set_exception(error)
            else:
                with self._lock:
                    del self._loading[name]
                    self._held[name] = self._kept(encoder)
                loading.set_result(encoder)
        return loading.result()

    def _kept(self, encoder: Encoder) -> Encoder:
        """Return an encoder asked for now; the one asked for longest ago is no longer kept beside ``most``."""
        self._recent[id(encoder)] = encoder
        self._recent.move_to_end(id(encoder))
        if len(self._recent) > self._most:
            self._recent.popitem(last=False)
        return encoder


def _name(description: Mapping[str, JSON]) -> str:
    return json.dumps(description, sort_keys=True)
