"""A key-value cache that grows in place, so that reading one more token does not copy all that came before."""

from typing import Any, cast

from torch import Tensor
from transformers import PretrainedConfig
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

_HEADROOM = 64  # positions kept free behind a prompt: an instruction, or look-ahead, soft or generated tokens


class GrowingLayer(DynamicLayer):
    """One layer's keys and values (B, heads, T, head dim) at the front of larger buffers.

    `DynamicLayer.crop` shortens the views; what is then read anew overwrites what was forgotten.

    Args:
        room: positions to make room for at once; more are made when they are needed.
    """

    def __init__(self, room: int = 0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._room = room
        self._buffers: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        """Append new positions and return all of them."""
        first = self.get_seq_length()
        last = first + key_states.shape[-2]
        if self._buffers is None or self._buffers[0].shape[-2] < last:
            self._grow(key_states, value_states, first, last)
        keys, values = self._buffers or (key_states, value_states)
        keys[..., first:last, :] = key_states
        values[..., first:last, :] = value_states
        self.keys, self.values = keys[..., :last, :], values[..., :last, :]
        return self.keys, self.values

    def _grow(self, key_states: Tensor, value_states: Tensor, first: int, last: int) -> None:
        wanted = max(last, self._room) + _HEADROOM
        room = [(*new.shape[:-2], wanted, new.shape[-1]) for new in (key_states, value_states)]
        keys, values = key_states.new_empty(room[0]), value_states.new_empty(room[1])
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self.keys is not None and self.values is not None and first:
            keys[..., :first, :] = self.keys
            values[..., :first, :] = self.values
        self._buffers = keys, values


def new_cache(config: PretrainedConfig, room: int) -> Cache:
    """Return an empty cache that can be cropped back; models with other than full attention get transformers' own.

    Args:
        config: the model's.
        room: how many positions the first block will have, all its parts together.
    """
    cache: Any = DynamicCache(config=config)
    if cache.layers and all(type(layer) is DynamicLayer for layer in cache.layers):
        cache.layers = [GrowingLayer(room) for _ in cache.layers]
    else:
        cache.activate_past_recording()
    return cast("Cache", cache)
