"""Holds a loss on tensors to a reference on lists of floats: values and gradients, in three number formats."""

import pytest
import torch

STEP = 1e-6


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + 100 * len(shape)), dtype=torch.float64)


def booleans(*rows):
    return torch.tensor(rows, dtype=torch.bool)


def leaves(tensors, dtype):
    return {name: tensor.to(dtype).clone().requires_grad_() for name, tensor in tensors.items()}


def gradients(loss, tensors, dtype):
    inputs = leaves(tensors, dtype)
    value = loss(**inputs)
    value.backward()
    return value.detach(), {name: tensor.grad for name, tensor in inputs.items()}


def central_differences(reference, tensors, name):
    slopes = torch.zeros_like(tensors[name])
    for at in range(slopes.numel()):
        moved = []
        for sign in (STEP, -STEP):
            inputs = {key: tensor.clone() for key, tensor in tensors.items()}
            inputs[name].view(-1)[at] += sign
            moved.append(reference(**{key: tensor.tolist() for key, tensor in inputs.items()}))
        slopes.view(-1)[at] = (moved[0] - moved[1]) / (2 * STEP)
    return slopes


def check(loss, reference, tensors, *, frozen=()):
    """Compare a scalar loss of named float64 tensors with a reference of the same names; return its value.

    `frozen` names inputs that must get no gradient; one that the loss does not read gets none either.
    """
    expected = reference(**{name: tensor.tolist() for name, tensor in tensors.items()})
    value, found = gradients(loss, tensors, torch.float64)
    assert value.shape == ()
    assert value.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    single, found_single = gradients(loss, tensors, torch.float32)
    assert single.dtype == torch.float32
    assert single.item() == pytest.approx(expected, rel=1e-4, abs=1e-5)
    for name in tensors:
        if name in frozen:
            assert found[name] is None
            continue
        slopes = central_differences(reference, tensors, name)
        if found[name] is None:
            assert not slopes.any(), name
            continue
        assert torch.allclose(found[name], slopes, rtol=1e-5, atol=1e-6), name
        assert torch.allclose(found_single[name].double(), slopes, rtol=1e-3, atol=1e-3), name
    check_half(loss, tensors)
    return value.item()


def check_half(loss, tensors):
    """bfloat16 inputs must give what their exact float32 copies give, in float32; gradients come back as bfloat16."""
    rounded = {name: tensor.bfloat16() for name, tensor in tensors.items()}
    half, found_half = gradients(loss, rounded, torch.bfloat16)
    exact, found_exact = gradients(loss, rounded, torch.float32)
    assert half.dtype == torch.float32
    assert half.item() == exact.item()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss(**leaves(rounded, torch.float32)).item() == exact.item()
    for name, gradient in found_half.items():
        assert (gradient is None) == (found_exact[name] is None)
        if gradient is not None:
            assert gradient.dtype == torch.bfloat16
            assert torch.allclose(gradient.float(), found_exact[name], rtol=2e-2, atol=1e-2), name


def check_finite(loss, tensors, expected):
    """The loss must have this value and finite gradients, with no NaN on the way back either; return the gradients."""
    with torch.autograd.set_detect_anomaly(True):
        value, found = gradients(loss, tensors, torch.float32)
    assert value.item() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    for name, gradient in found.items():
        assert gradient is None or gradient.isfinite().all(), name
    return found
