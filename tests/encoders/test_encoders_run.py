import pytest
import torch

from retriever.encoders import run
from retriever.encoders.cache import GrowingLayer
from retriever.encoders.run import PromptRun

ROWS = [[5, 6, 7, 8, 9, 10, 11, 12, 13], [14, 15, 16], [17]]


@pytest.fixture(params=["llama", "mistral", "gpt2"])
def model(request, backbone):
    return backbone(request.param, "float32")


@torch.inference_mode()
def read(model, tokens, monkeypatch):
    monkeypatch.setattr(run, "BLOCK_TOKENS", tokens)
    batch = PromptRun(model, ROWS, cached=True)
    states = batch.start()
    after = batch.extend(model.embed(torch.full((3, 1), 20)))
    return batch, states, after


@pytest.mark.parametrize("tokens", [1, 6, 7, 26])
def test_reading_in_columns_equals_reading_at_once(model, monkeypatch, tokens):
    _, whole, after = read(model, 1000, monkeypatch)
    batch, states, later = read(model, tokens, monkeypatch)
    assert states.shape == whole.shape == (3, 9, model.dim)
    for row, ids in enumerate(ROWS):
        kept = slice(9 - len(ids), None)  # what stands before is padding
        torch.testing.assert_close(states[row, kept], whole[row, kept], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(later, after, atol=1e-5, rtol=1e-4)
    assert batch.length == 10


def test_large_blocks_are_read_in_columns(backbone, monkeypatch):
    model, widths = backbone("llama", "float32"), []
    real = model.forward
    monkeypatch.setattr(model, "forward", lambda block, **rest: widths.append(block.shape[1]) or real(block, **rest))
    read(model, 6, monkeypatch)
    assert widths == [2, 2, 2, 2, 1, 1]


def test_room_for_all_columns_is_made_once(backbone, monkeypatch):
    made = []
    real = GrowingLayer._grow
    monkeypatch.setattr(GrowingLayer, "_grow", lambda layer, *rest: made.append(layer) or real(layer, *rest))
    batch, _, _ = read(backbone("gpt2", "float32"), 3, monkeypatch)
    assert len(made) == len(set(map(id, made))) == len(batch.cache.layers)


def test_all_layers_share_one_piece_of_memory(backbone, monkeypatch):
    batch, _, _ = read(backbone("gpt2", "float32"), 3, monkeypatch)
    buffers = [buffer for layer in batch.cache.layers for buffer in layer._buffers]
    assert len({buffer.untyped_storage().data_ptr() for buffer in buffers}) == 1
    assert len({buffer.data_ptr() for buffer in buffers}) == len(buffers)


@torch.inference_mode()
def test_what_outgrows_the_room_is_moved(model):
    more = model.embed(torch.arange(20, 20 + 70).expand(3, -1))  # beyond the headroom
    at_once, step_by_step = (PromptRun(model, ROWS, cached=True) for _ in range(2))
    at_once.start()
    step_by_step.start()
    expected = at_once.extend(more)
    found = torch.cat([step_by_step.extend(one) for one in more.split([1, 62, 3, 4], dim=1)], dim=1)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
