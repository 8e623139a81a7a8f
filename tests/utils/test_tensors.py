"""Files with arrays come back as they were, or are refused: a single bit is enough."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from trilith.utils.tensors import load_tensors, save_tensors

ARRAYS = {"a": np.arange(600, dtype=np.float32).reshape(20, 30), "b": np.array(7), "c": np.zeros((0, 3), np.uint8)}


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    save_tensors(tmp_path / "x.safetensors", ARRAYS, {"facts": "some"})
    arrays, texts = load_tensors(tmp_path / "x.safetensors")
    assert texts == {"facts": "some"}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert (arrays[name].dtype, arrays[name].shape, arrays[name].tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_any_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_tensors(path, ARRAYS, {"facts": "some"})
    before, rng, told = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(400):
        damaged = bytearray(before)
        damaged[rng.integers(len(before))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with suppress(ValueError):
            arrays, texts = load_tensors(path)  # only a bit that means nothing, such as white space of the header, gets through
            assert texts == {"facts": "some"}
            assert all(arrays[name].tobytes() == array.tobytes() for name, array in ARRAYS.items())
            continue
        told += 1
    assert told > 390


def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"a": ARRAYS["a"]}, tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match="has no checksum"):
        load_tensors(tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match="cannot read"):
        load_tensors(tmp_path / "none.safetensors")
