"""A key-value cache that grows in place, so that reading one more token does not copy all that came before."""

from typing import Any, cast

from torch import Tensor
from transformers import PretrainedConfig
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

_HEADROOM = 64  # positions kept free behind a prompt: an instruction, or look-ahead, soft or generated tokens


class Room:
    """Memory for the keys and values of all layers of one batch, taken from the system in one piece.

    Allocators keep small pieces and return large ones. Batches differ in shape, so pieces of their own for every layer
    and batch would leave gaps that no later one fits: twice the memory after a few hundred texts.

    Args:
        layers: how many layers will ask.
        positions: how many positions each will need at once.
    """

    def __init__(self, layers: int, positions: int) -> None:
        self.positions = positions + _HEADROOM
        self._pieces = 2 * layers
        self._taken = 0
        self._memory: Tensor | None = None

    def take(self, like: Tensor, positions: int) -> Tensor:
        """Return an uninitialised (B, heads, positions or more, head dim) for states (B, heads, S, head dim)."""
        batch, heads, _, width = like.shape
        if self._memory is None:
            self._memory = like.new_empty((self._pieces, batch, heads, max(self.positions, positions), width))
        piece = self._memory[min(self._taken, self._pieces - 1)]
        fits = piece.shape == (batch, heads, max(piece.shape[2], positions), width) and piece.dtype == like.dtype
        if self._taken >= self._pieces or not fits:
            return like.new_empty((batch, heads, positions + _HEADROOM, width))
        self._taken += 1
        return piece


class GrowingLayer(DynamicLayer):
    """One layer's keys and values (B, heads, T, head dim) at the front of larger buffers.

    `DynamicLayer.crop` shortens the views; what is then read anew overwrites what was forgotten.

    Args:
        room: where the first buffers come from.
    """

    def __init__(self, room: Room) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._room = room
        self._buffers: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        """Append new positions and return all of them."""
        first = self.get_seq_length()
        last = first + key_states.shape[-2]
        if self._buffers is None or self._buffers[0].shape[-2] < last:
            self._buffers = self._grow(key_states, value_states, first, last)
        keys, values = self._buffers
        keys[..., first:last, :] = key_states
        values[..., first:last, :] = value_states
        self.keys, self.values = keys[..., :last, :], values[..., :last, :]
        return self.keys, self.values

    def _grow(self, key_states: Tensor, value_states: Tensor, first: int, last: int) -> tuple[Tensor, Tensor]:
        keys, values = (self._room.take(new, last) for new in (key_states, value_states))
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self.keys is not None and self.values is not None and first:
            keys[..., :first, :] = self.keys
            values[..., :first, :] = self.values
        return keys, values


def new_cache(config: PretrainedConfig, positions: int) -> Cache:
    """Return an empty cache that can be cropped back; models with other than full attention get transformers' own.

    Args:
        config: the model's.
        positions: how many the first block will have, all its parts together.
    """
    cache: Any = DynamicCache(config=config)
    if cache.layers and all(type(layer) is DynamicLayer for layer in cache.layers):
        room = Room(len(cache.layers), positions)
        cache.layers = [GrowingLayer(room) for _ in cache.layers]
    else:
        cache.activate_past_recording()
    return cast("Cache", cache)
