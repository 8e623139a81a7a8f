"""Compiled layers of networks that act, beside their formulas in numpy."""

import numpy as np
import pytest

from trilith.networks.kernels.forward import linear

SIZES = [(1, 1), (3, 31), (4, 32), (7, 33), (40, 64), (64, 6)]
"""Inputs and outputs, around the sizes from which a layer is computed otherwise."""


@pytest.mark.parametrize(("inputs", "outputs"), SIZES)
@pytest.mark.parametrize("rectify", [False, True])
def test_a_linear_layer_is_a_product_and_a_bias(inputs: int, outputs: int, rectify: bool) -> None:
    rng = np.random.default_rng(0)
    for rows in (0, 1, 2, 3, 4, 5, 18):
        x, weight, bias = (rng.normal(size=size).astype(np.float32) for size in ((rows, inputs), (inputs, outputs), outputs))
        expected = x.astype(float) @ weight + bias
        found = linear(x, weight, bias, rectify)
        np.testing.assert_allclose(found, np.maximum(expected, 0) if rectify else expected, atol=1e-5)


@pytest.mark.parametrize(("inputs", "outputs"), SIZES)
def test_a_row_of_a_linear_layer_does_not_depend_on_the_others_to_the_last_bit(inputs: int, outputs: int) -> None:
    rng = np.random.default_rng(1)
    x, weight, bias = (rng.normal(size=size).astype(np.float32) for size in ((11, inputs), (inputs, outputs), outputs))
    together = linear(x, weight, bias, False)
    for first in range(len(x)):
        for last in range(first + 1, len(x) + 1):
            assert (linear(x[first:last], weight, bias, False) == together[first:last]).all()
