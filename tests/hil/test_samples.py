"""Inputs: random series, NPZ and NPY files, and everything that can be wrong with them."""

from __future__ import annotations

import io
import math
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hil.errors import HilWarning, InputError
from hil.verify.samples import (
    RandomSamples,
    first_sample,
    is_saved,
    load_input,
    load_samples,
    random_sample,
    samples_of,
    save_arrays,
)
from hilc.artifact.library import TensorInfo
from hilc.executor import conversion_hint


def tensor(name: str, shape: tuple[int, ...], dtype: str = "int8") -> TensorInfo:
    quantized = dtype in ("int8", "uint8")
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return TensorInfo(name, name, shape, dtype, 0.5 if quantized else None, 3, size, None)


X = tensor("x", (1, 2, 3))
Y = tensor("y", (4,), "float32")


def test_random_int8_takes_every_value() -> None:
    values = random_sample([tensor("x", (1, 20000))], seed=1, index=0)["x"]
    assert values.dtype == np.int8
    counts = np.bincount(values.ravel().astype(int) + 128, minlength=256)
    assert counts.min() > 30
    assert counts.max() < 160


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "float32", "bool"])
def test_random_has_shape_and_type(dtype: str) -> None:
    values = random_sample([tensor("x", (2, 50), dtype)], seed=0, index=0)["x"]
    assert values.shape == (2, 50)
    assert values.dtype == np.dtype(dtype)
    assert len(np.unique(values)) > 1


def test_random_floats_are_standard_normal() -> None:
    values = random_sample([tensor("x", (10000,), "float32")], seed=0, index=0)["x"]
    assert abs(values.mean()) < 0.05
    assert abs(values.std() - 1) < 0.05


def test_series_depend_on_seed_and_index_only() -> None:
    few, many = RandomSamples([X], 7, 2), RandomSamples([X], 7, 5)
    assert len(many) == 5
    assert (few[1]["x"] == many[1]["x"]).all()
    assert (many[0]["x"] != many[1]["x"]).any()
    assert (RandomSamples([X], 8, 1)[0]["x"] != few[0]["x"]).any()
    assert [s["x"].tolist() for s in many][1:3] == [s["x"].tolist() for s in many[1:3]]


@pytest.mark.parametrize(
    ("shape", "count"),
    [((1, 2, 3), 1), ((5, 2, 3), 5), ((4, 1, 2, 3), 4), ((1, 1, 2, 3), 1)],
)
def test_forms_of_samples(tmp_path: Path, shape: tuple[int, ...], count: int) -> None:
    array = np.arange(np.prod(shape), dtype=np.int8).reshape(shape)
    np.savez(tmp_path / "a.npz", x=array)
    samples = load_samples(tmp_path / "a.npz", [X], "input")
    assert len(samples) == count
    assert all(sample["x"].shape == X.shape for sample in samples)
    assert np.concatenate([s["x"].ravel() for s in samples]).tolist() == array.ravel().tolist()


@pytest.mark.parametrize(("shape", "count"), [((), 1), ((1,), 1), ((4,), 4)])
def test_samples_of_a_tensor_without_dimensions(
    tmp_path: Path, shape: tuple[int, ...], count: int
) -> None:
    np.savez(tmp_path / "a.npz", x=np.full(shape, 7, np.int8))
    samples = load_samples(tmp_path / "a.npz", [tensor("x", ())], "input")
    assert [(np.shape(s["x"]), int(s["x"])) for s in samples] == [((), 7)] * count


@pytest.mark.parametrize(
    ("shape", "count"), [((6,), 1), ((1, 2, 3), 1), ((2, 3), 1), ((5, 6), 5), ((4, 2, 3), 4)]
)
def test_a_flat_tensor_takes_any_shape_of_its_size(
    tmp_path: Path, shape: tuple[int, ...], count: int
) -> None:
    array = np.arange(np.prod(shape), dtype=np.int8).reshape(shape)
    np.savez(tmp_path / "a.npz", x=array)
    samples = load_samples(tmp_path / "a.npz", [tensor("x", (6,))], "input")
    assert np.stack([s["x"] for s in samples]).tolist() == array.reshape(count, 6).tolist()


def test_a_flat_tensor_of_another_size(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 9), np.int8))
    with pytest.raises(InputError, match=r"has shape \[2, 9\] but the model's 'x' has \[6\]"):
        load_samples(tmp_path / "a.npz", [tensor("x", (6,))], "input")


def test_several_inputs(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((3, 2, 3), np.int8), y=np.ones((3, 4), np.float32))
    samples = load_samples(tmp_path / "a.npz", [X, Y], "input")
    assert [sorted(sample) for sample in samples] == [["x", "y"]] * 3


def _x(**arrays: np.ndarray) -> dict[str, np.ndarray]:
    return {"x": np.zeros((1, 2, 3), np.int8), **arrays}


@pytest.mark.parametrize(
    ("arrays", "fact"),
    [
        ({}, "has no array for the model's input 'x'"),
        (_x(z=np.zeros(1)), "contains an array 'z', which is not an input"),
        ({"x": np.zeros((2, 3), np.int8)}, "has shape [2, 3] but the model's 'x' has [1, 2, 3]"),
        ({"x": np.zeros((3, 2, 2), np.int8)}, "has shape [3, 2, 2]"),
        ({"x": np.zeros((2, 2, 2, 3), np.int8)}, "has shape [2, 2, 2, 3]"),
        ({"x": np.zeros((1, 2, 3), np.float32)}, "is float32 but the model's 'x' is int8"),
        ({"x": np.zeros((1, 2, 3), np.uint8)}, "is uint8 but the model's 'x' is int8"),
        ({"x": np.zeros((0, 2, 3), np.int8)}, "holds no sample"),
        ({"x": np.array([{}], dtype=object)}, "array 'x' cannot be read"),
    ],
)
def test_wrong_arrays(tmp_path: Path, arrays: dict[str, Any], fact: str) -> None:
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    with pytest.raises(InputError) as caught:
        load_samples(path, [X], "input")
    assert str(path) in caught.value.fact
    assert fact in caught.value.fact
    assert caught.value.hint


def test_numbers_of_samples_differ(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((3, 2, 3), np.int8), y=np.ones((2, 4), np.float32))
    with pytest.raises(InputError, match="different numbers of samples: x 3, y 2"):
        load_samples(tmp_path / "a.npz", [X, Y], "input")


def _truncated(path: Path) -> None:
    np.savez(path, x=np.zeros((1, 2, 3), np.int8))
    path.write_bytes(path.read_bytes()[:100])


def _corrupted(path: Path) -> None:
    np.savez(path, x=np.arange(6, dtype=np.int8).reshape(1, 2, 3))
    data = bytearray(path.read_bytes())
    data[data.index(bytes(range(6)))] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("make", "fact"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: path.write_bytes(b""), "neither an NPZ nor"),
        (lambda path: path.write_text("hello"), "neither an NPZ nor"),
        (_truncated, "cannot be read"),
        (_corrupted, "array 'x' cannot be read"),
        (lambda path: np.save(path.open("wb"), np.zeros(3)), "is an NPY file"),
    ],
    ids=["missing", "folder", "empty", "text", "truncated", "corrupted", "npy"],
)
def test_files_that_are_no_npz(tmp_path: Path, make: object, fact: str) -> None:
    path = tmp_path / "f.npz"
    make(path)  # type: ignore[operator]
    with pytest.raises(InputError, match=fact):
        load_samples(path, [X], "input")


def test_an_npy_file_of_the_only_tensor(tmp_path: Path) -> None:
    path = tmp_path / "f.npy"
    array = np.arange(12, dtype=np.int8).reshape(2, *X.shape)
    np.save(path, array)
    assert [sample["x"].tolist() for sample in load_samples(path, [X], "input")] == array.tolist()
    with pytest.raises(InputError, match="one array, without a name"):
        load_samples(path, [X, replace(X, name="z")], "input")


def test_a_pickle_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "f.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="cannot be read: it holds Python objects") as caught:
        load_input(path, X)
    assert "allow_pickle" not in str(caught.value)
    assert "numpy.save(file, labels.astype(str))" in caught.value.hint


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty, so neither an NPZ nor an NPY file"),
        (b"1 2 3\n", "neither an NPZ nor an NPY file"),
        (b"PK\x03\x04 and nothing of a ZIP file", "cannot be read: File is not a zip file"),
        # The header is Python, which numpy's parser gives up on in a way of its own.
        (b"\x93NUMPY\x01\x00\x0a\x00{'descr': (", "cannot be read"),
    ],
)
def test_what_is_no_file_of_arrays(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    path.write_bytes(content)
    for load in (lambda: load_samples(path, [X], "input"), lambda: load_input(path, X)):
        with pytest.raises(InputError, match=message) as caught:
            load()
        assert "allow_pickle" not in str(caught.value)


def test_a_member_that_is_no_array_is_named(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", b"hello")
    for role in ("input", "output"):
        with pytest.raises(InputError, match="f.npz: the member 'x' is not an NPY file"):
            load_samples(path, [X], role)


@pytest.mark.full
def test_what_is_too_large_is_not_unpacked(tmp_path: Path) -> None:
    """A deflated file may hold a thousand times its size."""
    path = tmp_path / "bomb.npz"
    piece = bytes(16 << 20)
    header = io.BytesIO()
    shape = (65 << 24, 1)
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|i1", "fortran_order": False, "shape": shape}
    )
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w", force_zip64=True) as file,
    ):
        file.write(header.getvalue())
        for _ in range(65):
            file.write(piece)
    nbytes = math.prod(shape) + len(header.getvalue())
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=f"contains {nbytes} bytes of arrays; at most 10737"):
            load_samples(path, [tensor("x", (1,))], "input")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    sparse = tmp_path / "x.npy"
    with sparse.open("wb") as file:
        file.write(header.getvalue())
        file.truncate(nbytes)
    with pytest.raises(InputError, match=f"contains {nbytes} bytes of arrays"):
        load_input(sparse, X)


def test_more_values_than_memory_holds(tmp_path: Path) -> None:
    """The header of a small file may say any shape."""
    path = tmp_path / "x.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|i1", "fortran_order": False, "shape": (1 << 55, 6)}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", header.getvalue())
    with pytest.raises(InputError, match="array 'x' cannot be read: Unable to allocate"):
        load_samples(path, [X], "input")


def test_many_small_samples_take_only_their_array(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((4 << 20, 1), np.int8))
    tracemalloc.start()
    try:
        samples = load_samples(tmp_path / "a.npz", [tensor("x", (1,))], "input")
        some = samples[10:]
        assert tracemalloc.get_traced_memory()[0] < 6 << 20
    finally:
        tracemalloc.stop()
    assert (len(samples), len(some)) == (4 << 20, (4 << 20) - 10)
    assert some[0]["x"].tolist() == [0]


def test_load_input(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(6, dtype=np.int8).reshape(1, 2, 3))
    assert load_input(path, X).tolist() == [[[0, 1, 2], [3, 4, 5]]]
    np.save(path, np.zeros((2, 2, 3), np.int8))
    with pytest.raises(InputError, match="holds 2 samples"):
        load_input(path, X)
    np.savez(tmp_path / "x.npz", x=np.zeros(3))
    with pytest.raises(InputError, match="is an NPZ file"):
        load_input(tmp_path / "x.npz", X)


def test_a_float_for_a_quantized_input(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 2, 3)))
    with pytest.raises(InputError) as caught:
        load_input(tmp_path / "x.npy", X)
    assert "/ 0.5) + 3" in caught.value.hint


def test_clipped_floats_are_reported(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((1, 2, 3), -128.0))
    said = r"6 of 6 values of input 'x' \(-128\) clipped to -65.5 to 62"
    with pytest.warns(HilWarning, match=said):
        assert (load_input(tmp_path / "x.npy", X, quantize=True) == -128).all()
    with pytest.warns(HilWarning, match=said):
        samples_of(str(tmp_path / "x.npy"), [X], quantize=True)
    samples = iter([{"x": np.full(X.shape, 62.2)}, {"x": np.full(X.shape, np.inf)}] * 2)
    with pytest.warns(
        HilWarning, match=r"12 of 12 values of input 'x' in 2 samples \(inf\)"
    ) as caught:
        assert len(list(samples_of(samples, [X], quantize=True))) == 4
    assert len([w for w in caught if w.category is HilWarning]) == 1


def test_integers_are_converted_only_where_all_fit() -> None:
    fitting = np.array([[[-128, 0, 127]] * 2])
    assert conversion_hint(X, fitting) == "convert it: array.astype(numpy.int8)"
    assert conversion_hint(X, fitting.astype(np.uint8)) == (
        "int8 takes -128 to 127, and the array holds 0 to 128: "
        "quantize it: numpy.round(x / 0.5) + 3, clipped, as int8"
    )
    real = replace(X, dtype="float32", scale=None, zero_point=None)
    assert "scaled as in training: array.astype" in conversion_hint(real, fitting)
    for none in (np.array(["a"]), np.array([1j])):
        assert conversion_hint(X, none) == "give real numbers, as int8"
    plain = tensor("n", (2,), "int32")
    assert "takes -2147483648 to 2147483647" in conversion_hint(plain, np.array([0, 1 << 40]))
    assert "astype" not in conversion_hint(plain, np.array([0.5, np.nan]))
    assert "astype(numpy.int32)" in conversion_hint(plain, np.array([1.0, -2.0]))
    assert "astype(numpy.float32)" in conversion_hint(Y, np.array([1 << 40, 0.1]))
    assert "astype(numpy.bool" in conversion_hint(tensor("b", (1,), "bool"), np.array([0, 1]))


def test_saved_arrays_may_have_any_name(tmp_path: Path) -> None:
    arrays: dict[str, np.ndarray] = {
        "file": np.arange(3, dtype=np.int8),
        "a/b;c": np.array([[1.5]], np.float32),
        "": np.array([True, False]),
    }
    save_arrays(tmp_path / "a.npz", arrays)
    with np.load(tmp_path / "a.npz") as loaded:
        assert sorted(loaded) == sorted(arrays)
        for name, array in arrays.items():
            assert loaded[name].dtype == array.dtype
            assert loaded[name].tolist() == array.tolist()
    save_arrays(tmp_path / "b.npz", arrays)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_own_files_are_known(tmp_path: Path) -> None:
    """A command may replace what this wrote, and no other file."""
    own, other = tmp_path / "own.npz", tmp_path / "other.npz"
    save_arrays(own, {"x": np.zeros(3)})
    np.savez(other, x=np.zeros(3))
    assert is_saved(own)
    assert not is_saved(other)
    assert not is_saved(tmp_path / "none.npz")


@pytest.mark.parametrize("given", [3, [np.zeros(6)], np.zeros(6)])
def test_a_sample_is_a_file_or_a_mapping(given: Any) -> None:
    with pytest.raises(InputError, match=r"sample=.* is of type (int|list|ndarray)"):
        first_sample(given, [X])
