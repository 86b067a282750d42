"""Labelled data sets of every form, and what is none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hil.errors import InputError
from hil.verify.datasets import (
    DataSet,
    ModelClasses,
    Scaling,
    array_data,
    digest_of,
    load_data,
    read_index,
)
from hilc.artifact.library import TensorInfo

RNG = np.random.default_rng(3)


def info(
    shape: tuple[int, ...] = (1, 2, 3),
    dtype: str = "int8",
    scale: float | None = 0.5,
    name: str = "x",
) -> TensorInfo:
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return TensorInfo(name, name, shape, dtype, scale, None if scale is None else 3, nbytes, None)


INT8, FLOAT = info(), info(dtype="float32", scale=None)
SAMPLES = RNG.integers(-128, 128, (4, 2, 3)).astype(np.int8)
REAL = RNG.normal(size=(4, 2, 3)).astype(np.float32)
LABELS = np.array([0, 2, 1, 2])


def quantized(real: np.ndarray) -> np.ndarray:
    steps = real.astype(np.float32) / np.float32(0.5)
    rounded: np.ndarray = np.copysign(np.floor(np.abs(steps) + 0.5), steps)
    limited: np.ndarray = np.clip(rounded + 3, -128, 127)
    return limited


def stacked(data: DataSet) -> np.ndarray:
    return np.stack([data.samples[i]["x"] for i in range(len(data))])


@pytest.fixture
def npz(tmp_path: Path) -> Callable[..., Path]:
    def write(**arrays: Any) -> Path:
        np.savez(tmp_path / "data.npz", **arrays)
        return tmp_path / "data.npz"

    return write


# -- NPZ -------------------------------------------------------------------------------------------


def test_npz_with_names(npz: Callable[..., Path]) -> None:
    data = load_data(npz(x=SAMPLES[:, np.newaxis], labels=LABELS), [INT8])
    assert (stacked(data) == SAMPLES[:, np.newaxis]).all()
    assert data.labels.tolist() == LABELS.tolist()
    assert data.sources[3] == "sample 3"


@pytest.mark.parametrize("shape", [(4, 2, 3), (4, 1, 2, 3), (4, 6), (4, 2, 3, 1)])
@pytest.mark.parametrize("label", ["y", "y_test", "targets"])
def test_npz_of_one_array(npz: Callable[..., Path], shape: tuple[int, ...], label: str) -> None:
    """Under any name, with axes of size 1 or without, or flat; labels by a usual name."""
    data = load_data(npz(pictures=REAL.reshape(shape), **{label: LABELS}), [INT8])
    assert (stacked(data) == quantized(REAL)[:, np.newaxis]).all()


def test_labels_elsewhere(npz: Callable[..., Path], tmp_path: Path) -> None:
    np.save(tmp_path / "given.npy", LABELS)
    path = npz(x=SAMPLES, other=LABELS[::-1])
    assert load_data(path, [INT8], labels="other").labels.tolist() == LABELS[::-1].tolist()
    path = npz(x=SAMPLES)
    assert load_data(path, [INT8], labels=str(tmp_path / "given.npy")).labels[1] == 2


def test_integers_of_another_type_need_a_meaning(npz: Callable[..., Path]) -> None:
    pixels = RNG.integers(0, 256, (4, 2, 3)).astype(np.uint8)
    path = npz(x=pixels, y=LABELS)
    with pytest.raises(InputError, match="say what the numbers mean: --std 255"):
        stacked(load_data(path, [INT8]))
    data = load_data(path, [INT8], scaling=Scaling(std=(255,)))
    assert (stacked(data) == quantized(pixels / 255)[:, np.newaxis]).all()
    data = load_data(path, [INT8], scaling=Scaling((1, 2, 3), (10, 20, 30)))
    expected = quantized((pixels - np.array([1.0, 2, 3])) / [10, 20, 30])
    assert (stacked(data) == expected[:, np.newaxis]).all()
    with pytest.raises(InputError, match="whole numbers from -128 to 127"):
        stacked(load_data(path, [INT8], scaling=Scaling(as_integers=True)))
    # Pixels of 0 to 255 for a model trained with 0 to 1 would give wrong classes without a word.
    with pytest.raises(InputError, match="is uint8, and the model's 'x' is float32"):
        stacked(load_data(path, [FLOAT]))
    plain = load_data(path, [FLOAT], scaling=Scaling(std=(1,)))
    assert (stacked(plain) == pixels[:, np.newaxis]).all()
    data = load_data(npz(x=pixels // 2, y=LABELS), [INT8], scaling=Scaling(as_integers=True))
    assert (stacked(data) == pixels[:, np.newaxis] // 2).all()


def test_fractions_are_no_integers(npz: Callable[..., Path]) -> None:
    path = npz(x=np.full((4, 2, 3), 0.25), y=LABELS)
    with pytest.raises(InputError, match=r"holds 0\.25, and .* with --integers") as found:
        stacked(load_data(path, [INT8], scaling=Scaling(as_integers=True)))
    assert "drop --integers" in found.value.hint


def test_one_sample_of_a_batch(npz: Callable[..., Path]) -> None:
    data = load_data(npz(x=SAMPLES, y=LABELS), [info((2, 2, 3))])
    with pytest.raises(InputError, match=r"has the shape \[2, 3\]") as found:
        stacked(data)
    assert "--shape x=1,2,3" in found.value.hint
    with pytest.raises(InputError) as found:
        stacked(load_data(npz(x=SAMPLES[:, :1], y=LABELS), [info((2, 2, 3))]))
    assert "--shape" not in found.value.hint


@pytest.mark.parametrize(
    ("classes", "labels", "expected", "is_assumed"),
    [
        (("cat", "dog"), [1, 0, 1, 1], [1, 0, 1, 1], True),
        (("cat", "dog"), ["dog", "cat", "dog", "dog"], [1, 0, 1, 1], False),
        # The names of scikit-learn's classes, sorted as texts.
        (("1", "10", "2"), [1, 2, 10, 2], [0, 2, 1, 2], False),
        (("1", "10", "2"), ["1", "2", "10", "2"], [0, 2, 1, 2], False),
    ],
)
@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_labels_of_named_classes(
    npz: Callable[..., Path],
    tmp_path: Path,
    suffix: str,
    classes: tuple[str, ...],
    labels: list[Any],
    expected: list[int],
    is_assumed: bool,
) -> None:
    path = npz(x=REAL, y=np.array(labels))
    if suffix == ".csv":
        path = tmp_path / "data.csv"
        rows = [[*map(str, x.ravel()), str(y)] for x, y in zip(REAL, labels, strict=True)]
        path.write_text("\n".join(map(",".join, rows)))
    data = load_data(path, [FLOAT], classes=ModelClasses(classes))
    assert data.labels.tolist() == expected
    assert data.classes == classes
    assert ("positions, 0 cat, 1 dog" in data.assumption) is is_assumed


@pytest.mark.parametrize("suffix", [".npz", ".csv", "folder"])
@pytest.mark.parametrize("classes", [None, ("dog", "cat")])
def test_the_order_of_texts_is_an_assumption(
    npz: Callable[..., Path], tmp_path: Path, suffix: str, classes: tuple[str, ...] | None
) -> None:
    """Texts of a model that names no classes, unless the user names them."""
    labels = ["dog", "cat", "dog", "dog"]
    path = npz(x=REAL, y=np.array(labels))
    if suffix == ".csv":
        path = tmp_path / "data.csv"
        rows = [[*map(str, x.ravel()), y] for x, y in zip(REAL, labels, strict=True)]
        path.write_text("\n".join(map(",".join, rows)))
    elif suffix == "folder":
        path = tmp_path / "data"
        for number, (x, label) in enumerate(zip(REAL, labels, strict=True)):
            (path / label).mkdir(parents=True, exist_ok=True)
            np.save(path / label / f"{number}.npy", x)
    data = load_data(path, [FLOAT], classes=classes)
    assert ("in sorted order, 0 cat, 1 dog; name the classes" in data.assumption) is (
        classes is None
    )
    assert not load_data(npz(x=REAL, y=np.arange(4)), [FLOAT]).assumption


def test_labels_of_objects(npz: Callable[..., Path], tmp_path: Path) -> None:
    """Texts of pandas: the message says how to save them, and how to give them in Python."""
    texts = np.array(["cat", "dog", "cat", "dog"], object)
    np.save(tmp_path / "y.npy", texts, allow_pickle=True)
    with pytest.raises(InputError, match="it holds Python objects") as found:
        load_data(npz(x=REAL), [FLOAT], labels=str(tmp_path / "y.npy"))
    assert "numpy.save(file, labels.astype(str))" in found.value.hint
    with pytest.raises(InputError, match="'y' cannot be read: it holds Python objects") as found:
        load_data(npz(x=REAL, y=texts), [FLOAT])
    assert "numpy.savez(file, y=labels.astype(str))" in found.value.hint
    with pytest.raises(InputError, match=r"no list of numbers, but object\[4\]") as found:
        array_data({"x": REAL}, texts, [FLOAT])
    assert "texts as labels.astype(str)" in found.value.hint


@pytest.mark.parametrize("mark", [";", "\t"])
@pytest.mark.parametrize("header", ["a b label", ""])
def test_a_csv_file_of_other_marks(tmp_path: Path, mark: str, header: str) -> None:
    path = tmp_path / "data.csv"
    path.write_text("\n".join([header, "1 2 0", "2 3 1"]).strip().replace(" ", mark))
    with pytest.raises(InputError, match="has one column") as found:
        load_data(path, [FLOAT])
    assert f"by commas, not {mark!r}" in found.value.hint


def test_a_position_beyond_the_classes(npz: Callable[..., Path]) -> None:
    path = npz(x=REAL, y=LABELS)
    with pytest.raises(InputError, match="the number 2, and the model has 2 classes: 0 cat, 1 dog"):
        load_data(path, [FLOAT], classes=ModelClasses(("cat", "dog")))


def test_values_as_labels(npz: Callable[..., Path]) -> None:
    path = npz(x=SAMPLES, y=REAL.reshape(4, 6))
    assert load_data(path, [INT8], values=6).labels.shape == (4, 6)
    with pytest.raises(InputError, match="the model computes 5 values a sample"):
        load_data(path, [INT8], values=5)
    with pytest.raises(InputError, match="give the number of the class"):
        load_data(path, [INT8])


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_labels(npz: Callable[..., Path], sign: int) -> None:
    labels = np.array([0, 1, 2, sign * 2**31])
    assert load_data(npz(x=SAMPLES, y=labels), [INT8]).labels[3] == sign * 2**31
    with pytest.raises(InputError, match=r"hold .* at \[3\], which is no class"):
        load_data(npz(x=SAMPLES, y=labels + sign), [INT8])


def test_a_data_set_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the data set .*none does not exist") as caught:
        load_data(tmp_path / "none", [INT8])
    assert "a CSV file, or a folder" in caught.value.hint


def spoiled(**arrays: np.ndarray) -> dict[str, np.ndarray]:
    return {"x": SAMPLES, "y": LABELS, **arrays}


def test_labels_that_are_texts(npz: Callable[..., Path]) -> None:
    data = load_data(npz(**spoiled(y=np.array(["cat", "bee", "cat", "dog"]))), [INT8])
    assert data.labels.tolist() == [1, 0, 1, 2]
    assert data.classes == ("bee", "cat", "dog")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (spoiled(y=LABELS[:3]), "3 labels and 4 samples of 'x'"),
        (spoiled(y=LABELS + 0.5), "give the number of the class"),
        (spoiled(y=np.array([0, 1, np.nan, 1])), "labels of .* holds nan at"),
        (spoiled(y=np.array(1)), "no list of numbers"),
        (spoiled(y=np.array([list("abcd")])), "no list of numbers"),
        (spoiled(y=np.array([1j] * 4)), "no list of numbers"),
        ({"x": SAMPLES}, "has no array of labels"),
        ({"x": SAMPLES, "z": SAMPLES, "y": LABELS}, "name each array as its input"),
        ({"y": LABELS}, "holds no array beside the labels"),
        (spoiled(x=np.array(5)), "4 labels and 0 samples"),
        (spoiled(x=SAMPLES[:0], y=LABELS[:0]), "holds no sample"),
    ],
)
def test_hostile_npz(npz: Callable[..., Path], arrays: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_data(npz(**arrays), [INT8])


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (
            np.where(np.arange(24).reshape(4, 2, 3) == 13, np.nan, REAL),
            r"sample 2 .* nan at \[0",
        ),
        (np.where(np.arange(24).reshape(4, 2, 3) == 13, np.inf, REAL), "sample 2 .* inf at"),
        (REAL[:, :, :2], r"sample 0 .* shape \[2, 2\]"),
        (REAL.transpose(0, 2, 1), r"shape \[3, 2\]"),
        (REAL.astype(complex), "no numbers"),
        (np.full((4, 2, 3), "a"), "no numbers"),
    ],
)
def test_hostile_samples(npz: Callable[..., Path], samples: np.ndarray, message: str) -> None:
    data = load_data(npz(x=samples, y=LABELS), [INT8])
    with pytest.raises(InputError, match=message):
        stacked(data)


# -- folders ---------------------------------------------------------------------------------------


def folder_of(root: Path, *files: str) -> Path:
    for index, name in enumerate(files):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, SAMPLES[index % 4])
    return root


def test_a_folder_of_classes(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "dog/1.npy", "cat/b.npy", "cat/a.npy", ".git/x.npy")
    (tmp_path / "cat" / "readme.txt").write_text("no sample")
    (tmp_path / "cow").mkdir()  # a class without a sample
    data = load_data(folder, [INT8])
    assert data.sources == ["cat/a.npy", "cat/b.npy", "dog/1.npy"]
    assert data.labels.tolist() == [0, 0, 2]
    assert data.classes == ("cat", "cow", "dog")
    assert data.skipped == 1
    named = load_data(folder, [INT8], classes=["dog", "cat", "cow", "elk"])
    assert named.labels.tolist() == [0, 1, 1]
    with pytest.raises(InputError, match="class 'cow', which is none of dog, cat"):
        load_data(folder, [INT8], classes=["dog", "cat"])


def test_folders_of_numbers(tmp_path: Path) -> None:
    data = load_data(folder_of(tmp_path, "10/a.npy", "9/a.npy", "0/a.npy"), [INT8])
    assert data.labels.tolist() == [0, 9, 10]
    assert data.classes is None


def test_pictures(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = RNG.integers(0, 256, (2, 3)).astype(np.uint8)
    colours = RNG.integers(0, 256, (4, 5, 3)).astype(np.uint8)
    for place, array in (("grey/a/1.png", pixels), ("rgb/a/1.png", colours)):
        (tmp_path / place).parent.mkdir(parents=True)
        image.fromarray(array).save(tmp_path / place)
    grey = load_data(tmp_path / "grey", [INT8], scaling=Scaling(std=(255,)))
    assert (grey.samples[0]["x"][0] == quantized(pixels / 255)).all()
    plain = Scaling(std=(1,))
    rgb = load_data(tmp_path / "rgb", [info((1, 4, 5, 3), "float32", None)], scaling=plain)
    assert (rgb.samples[0]["x"][0] == colours).all()
    with pytest.raises(InputError, match="is 5 x 4 pixels"):
        _ = load_data(tmp_path / "rgb", [INT8]).samples[0]
    (tmp_path / "grey" / "a" / "2.png").write_bytes(b"\x89PNG no picture")
    with pytest.raises(InputError, match=r"2\.png cannot be read"):
        _ = load_data(tmp_path / "grey", [INT8]).samples[1]
    deep = pixels.astype(np.uint16) * 257
    for dtype, kind in ((np.uint16, "PNG"), (np.float32, "TIFF")):
        image.fromarray(deep.astype(dtype)).save(tmp_path / "grey" / "a" / "3.png", kind)
        with pytest.raises(InputError, match=r"3\.png has pixels of 16 bits or more"):
            _ = load_data(tmp_path / "grey", [INT8]).samples[2]


def test_hostile_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no subfolder"):
        load_data(tmp_path, [INT8])
    (tmp_path / "a").mkdir()
    with pytest.raises(InputError, match="holds no sample"):
        load_data(tmp_path, [INT8])
    (tmp_path / "a" / "1.npy").write_bytes(b"no array")
    data = load_data(tmp_path, [INT8])
    with pytest.raises(InputError, match="neither an NPZ nor an NPY"):
        _ = data.samples[0]
    with pytest.raises(InputError, match="whose subfolders are the labels"):
        load_data(tmp_path, [INT8], labels="y")
    with pytest.raises(InputError, match="holds samples of one input, and the model has 2"):
        load_data(tmp_path, [INT8, info(name="z")])


# -- MLPerf Tiny's index ---------------------------------------------------------------------------


def test_an_index_of_raw_files(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(SAMPLES[0].tobytes())
    (tmp_path / "b.bin").write_bytes(REAL[:2].astype("<f4").tobytes())
    (tmp_path / "y_labels.csv").write_text("a.bin,3,2\nb.bin,3,1,24,24\n")
    data = load_data(tmp_path, [INT8])
    assert data.labels.tolist() == [2, 1, 1]
    assert (data.samples[0]["x"] == SAMPLES[0]).all()
    assert (data.samples[2]["x"] == quantized(REAL[1])).all()
    assert [(i.start, i.size) for i in read_index(tmp_path)] == [(0, None), (0, 24), (24, 24)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a.bin,3", "line 1: .* is not FILE"),
        ("a.bin,3,x", "is not FILE"),
        ("a.bin,3,-1", "is not FILE"),
        ("../a.bin,3,1", "lies outside"),
        ("/etc/passwd,3,1", "lies outside"),
        ("a.bin,3,1,0,4", "windows of 0 bytes"),
        ("gone.bin,3,1,4,4", "cannot read"),
        ("a\0.bin,3,1", "cannot read .*null"),
        (f"a.bin,3,{'9' * 30}", "is not FILE"),
        (f"a.bin,3,1,{'9' * 30},1", "is not FILE"),
    ],
)
def test_a_hostile_index(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "a.bin").write_bytes(b"abc")
    (tmp_path / "y_labels.csv").write_text(line + "\n")
    with pytest.raises(InputError, match=message):
        stacked(load_data(tmp_path, [INT8]))


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """Files and classes whose names are no UTF-8 are read, and told by their bytes."""
    for index, name in enumerate((b"\xff", b"b\n")):
        folder = os.fsencode(tmp_path) + b"/" + name
        os.mkdir(folder)
        np.save(os.fsdecode(folder) + "/\udcfe.npy", SAMPLES[index])
    data = load_data(tmp_path, [INT8])
    assert data.classes == ("b\n", "\\xff")
    assert list(data.sources) == ["b\n/\\xfe.npy", "\\xff/\\xfe.npy"]
    assert (stacked(data) == SAMPLES[[1, 0]][:, np.newaxis]).all()


# -- CSV -------------------------------------------------------------------------------------------


def rows(values: np.ndarray, labels: list[object]) -> str:
    lines = zip(values.reshape(len(values), -1), labels, strict=True)
    return "".join(f"{','.join(map(str, row.tolist()))},{label}\n" for row, label in lines)


@pytest.mark.parametrize(
    ("head", "labels", "numbers", "names"),
    [
        ("", [0, 2, 1, 2], [0, 2, 1, 2], None),
        ("a,b,c,d,e,f,species\n", [0, 2, 1, 2], [0, 2, 1, 2], None),
        ("", ["dog", "cat", "dog", "elk"], [1, 0, 1, 2], ("cat", "dog", "elk")),
        ("\n", [0, 2, 1, 2], [0, 2, 1, 2], None),
    ],
)
def test_csv(
    tmp_path: Path,
    head: str,
    labels: list[object],
    numbers: list[int],
    names: tuple[str, ...] | None,
) -> None:
    path = tmp_path / "data.csv"
    path.write_text(head + rows(REAL, labels), encoding="utf-8-sig")
    data = load_data(path, [INT8])
    assert (stacked(data) == quantized(REAL)[:, np.newaxis]).all()
    assert data.labels.tolist() == numbers
    assert data.classes == names


def test_whole_numbers_of_a_quantized_input(tmp_path: Path) -> None:
    """They may be its integers, or floats: an option says it. One point in the file says floats."""
    integers, floats = tmp_path / "integers.csv", tmp_path / "floats.csv"
    integers.write_text("a,b,c,d,e,f,label\n-128, 2,+3,4,5,6,0\n1,2,3,4,5,127,1\n")
    floats.write_text("1,2,3,4,5,6,0\n1,2,3,4,5.0,6,1\n")
    with pytest.raises(
        InputError, match=r"integers\.csv, line 2 is int64, and the model's"
    ) as found:
        stacked(load_data(integers, [INT8]))
    assert "--std 1 " in found.value.hint
    assert "--integers" in found.value.hint
    own = stacked(load_data(integers, [INT8], scaling=Scaling(as_integers=True)))
    assert own.reshape(2, 6).tolist() == [[-128, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 127]]
    real = np.array([[-128, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 127]], np.float32)
    used = stacked(load_data(integers, [INT8], scaling=Scaling(std=(1.0,))))
    assert (used.ravel() == quantized(real).ravel()).all()
    assert (stacked(load_data(integers, [FLOAT])).ravel() == real.ravel()).all()
    pointed = np.array([[1, 2, 3, 4, 5, 6]] * 2, np.float32)
    assert (stacked(load_data(floats, [INT8])).ravel() == quantized(pointed).ravel()).all()


def test_columns_of_labels(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("class,a,b,c,d,e,f\n" + "".join(f"{i},1,2,3,4,5,6\n" for i in range(3)))
    assert load_data(path, [INT8]).labels.tolist() == [0, 1, 2]
    assert load_data(path, [INT8], labels="f").labels.tolist() == [6, 6, 6]
    assert load_data(path, [INT8], labels="0").labels.tolist() == [0, 1, 2]
    values = load_data(path, [info((1, 5), "float32", None)], labels="a,b", values=2)
    assert values.labels.tolist() == [[1, 2]] * 3
    assert values.samples[2]["x"].shape == (1, 5)
    with pytest.raises(InputError, match="no column 'clas'.*did you mean class"):
        load_data(path, [INT8], labels="clas")


@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_clipped_floats_are_counted(tmp_path: Path, npz: Callable[..., Path], suffix: str) -> None:
    """int8 with the scale 0.5 and zero point 3 takes -65.5 to 62; half a step more is rounded."""
    rows = [[-128.0, 127.0, 0], [62.2, -65.7, 0], [62.3, 0, 0]]
    path = npz(x=np.array(rows), y=LABELS[:3])
    if suffix == ".csv":
        path = tmp_path / "data.csv"
        lines = [
            ",".join(map(str, [*row, label])) for row, label in zip(rows, LABELS, strict=False)
        ]
        path.write_text("\n".join(lines))
    data = load_data(path, [info((3,))])
    for _ in range(2):  # a sample that is read again counts once
        assert stacked(data)[:, :2].tolist() == [[-128, 127], [127, -128], [127, 3]]
    (remark,) = data.drawn(2, 0).clipping.remarks()
    assert remark.startswith(
        "3 of 6 values of input 'x' in 2 samples (from -128 to 127) clipped to "
    )
    assert "-65.5 to 62, the range of int8 with scale 0.5 and zero point 3" in remark
    assert remark.endswith(
        "if they are the model's integers, store them as int8, or give --integers"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a,b,label\n", "holds no sample"),
        ("1,2,3,4,5,6,0\n1,2,0\n", "line 2: 3 values, and the first line has 7"),
        ("1,2,3,4,5,6,0\n1,2,x,4,5,6,0\n", "line 2, column 2: 'x' is no finite"),
        ("1,2,3,4,5,nan,0\n", "line 1, column 5: 'nan' is no finite"),
        ("1,2,3,4,5,6,0.5\n", "give the number of the class"),
        ("1,2,3,4,5,0\n", r"line 1 has the shape \[5\]"),
        ("1,2,3,4,5,1e999,0\n", "line 1, column 5: '1e999' is no finite"),
        # Python would read 10.
        ("1,2,3,4,5,6,0\n1,2,1_0,4,5,6,0\n", "line 2, column 2: '1_0' is no finite"),
        ("1,2,3,4,5,6,1e300\n", "which is no class"),
        # A line of separators is no blank one.
        (",,\n3,0,0\n", "line 1, column 0: '' is no finite"),
        ("1,2,3,4,5,6,0\n,,,,,,\n", "line 2, column 6: '' is no class"),
    ],
)
def test_hostile_csv(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        stacked(load_data(path, [INT8]))


@pytest.mark.parametrize(
    ("first", "column", "value"),
    [
        ("1.5,,1", 1, ""),
        (" , ,1", 0, " "),
        ("0x10,2,1", 0, "0x10"),
        ("1.5,1_0,1", 1, "1_0"),
        ("1,2,", 2, ""),
        ("nan,2,1", 0, "nan"),
        ("2,-Infinity,1", 1, "-Infinity"),
        ("INF,b,label", 0, "INF"),
        ("1,2,NaN", 2, "NaN"),
        # Names of columns, one of them a number or none: neither is dropped.
        ("2019,b,label", 1, "b"),
        (",b,label", 0, ""),
    ],
)
@pytest.mark.parametrize("head", ["", "\n", "a,b,label\n"])
def test_a_line_with_a_number_or_a_gap_is_a_sample(
    tmp_path: Path, head: str, first: str, column: int, value: str
) -> None:
    """Its wrong cell is named by line, column and value, and no sample is dropped."""
    path = tmp_path / "data.csv"
    path.write_text(f"{head}{first}\n3,0,0\n")
    name = r" \('(a|b|label)'\)" if head.strip() else ""
    place = rf"line {1 + bool(head)}, column {column}{name}: {value!r} is no "
    with pytest.raises(InputError, match=place):
        stacked(load_data(path, [info((1, 2), "float32", None)]))


def test_a_first_line_of_names_or_of_a_text_label(tmp_path: Path) -> None:
    path, inputs = tmp_path / "data.csv", [info((1, 2), "float32", None)]
    path.write_text("x y, 0x10 ,label\n3,.5,0\n-1e3,+4,1\n")
    data = load_data(path, inputs)
    assert stacked(data).tolist() == [[[3, 0.5]], [[-1000, 4]]]
    assert data.labels.tolist() == [0, 1]
    path.write_text("dog,3,.5\ncat,1,2\n")
    data = load_data(path, inputs, labels="0")
    assert (len(data), data.classes, data.labels.tolist()) == (2, ("cat", "dog"), [1, 0])


def test_more_values_of_a_label_than_columns(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("1,2,3\n")
    with pytest.raises(InputError, match="the model computes 9 values a sample"):
        load_data(path, [INT8], values=9)


def test_names_of_classes_are_no_numbers(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("1,2,3,4,5,6,2_1\n1,2,3,4,5,6,1_0\n")
    data = load_data(path, [INT8])
    assert (data.classes, data.labels.tolist()) == (("1_0", "2_1"), [1, 0])


def test_csv_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"\xff\xfe1,2\x00\n")
    with pytest.raises(InputError, match="cannot be read"):
        load_data(path, [INT8])


# -- drawing, digests ------------------------------------------------------------------------------


def test_drawn_samples(npz: Callable[..., Path]) -> None:
    data = load_data(npz(x=SAMPLES, y=np.arange(4)), [INT8])
    drawn = data.drawn(2, seed=1)
    assert len(drawn) == 2
    for index, label in enumerate(drawn.labels.tolist()):
        assert (drawn.samples[index]["x"] == SAMPLES[label]).all()
        assert drawn.sources[index] == f"sample {label}"
    assert data.drawn(2, seed=1).labels.tolist() == drawn.labels.tolist()
    assert data.drawn(9, seed=1) is data


def test_digests_tell_values_and_types_apart() -> None:
    samples = [{"x": SAMPLES[0]}, {"x": SAMPLES[1]}, {"x": SAMPLES[0].astype(np.int16)}]
    assert len({digest_of(sample) for sample in samples}) == 3
    assert digest_of({"x": SAMPLES[0].copy()}) == digest_of(samples[0])


@pytest.mark.parametrize(
    "scaling",
    [{"mean": (1.0,), "as_integers": True}, {"std": (0.0,)}, {"mean": (float("nan"),)}],
)
def test_scalings_that_mean_nothing(scaling: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Scaling(**scaling)
