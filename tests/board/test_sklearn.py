"""Classifiers of scikit-learn on boards: their labels are those of scikit-learn's predict.

tools/sklearn_models.py made the classifiers, the samples and the labels.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hil
import hilc
from hil.errors import HilWarning, InputError

ARCHIVE = Path(__file__).parents[1] / "sklearn_models.tar.xz"
BOARDS = ("mps2-an386", "riscv-virt")
#: What every change is tested with; the other classifiers, and all samples, are marked full.
FEW = ("forest", "mlp", "text_forest")
FEW_SAMPLES = 20
OTHERS = (
    *(
        "svc",
        "logistic",
        "extra_trees",
        "tree",
        "boosted",
        "ada",
        "linear_svc",
        "bayes",
        "neighbours",
    ),
    *("text_svc", "text_mlp", "text_logistic", "text_bayes", "text_neighbours"),
)
SHAPE = {"X": (1, 64)}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sklearn")
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            (folder / member.name).write_bytes(file.read())
    return folder


def evaluated(models: Path, name: str, board: str, samples: int, **options: Any) -> Any:
    labels = np.load(models / f"{name}.npy")[:samples]
    x = np.load(models / "x.npy")[:samples]
    return hil.evaluate(
        models / f"{name}.onnx", x, labels, board=board, shapes=SHAPE, at_least=1.0, **options
    )


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("name", FEW)
def test_labels_of_predict(models: Path, name: str, board: str) -> None:
    report = evaluated(models, name, board, FEW_SAMPLES)
    assert report.mismatches == 0
    assert report.is_met


@pytest.mark.full
@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("name", [*FEW, *OTHERS])
def test_every_label_of_predict(models: Path, name: str, board: str) -> None:
    report = evaluated(models, name, board, 360)
    assert report.samples == 360
    assert report.mismatches == 0
    assert report.is_met


# Texts and dictionaries ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in (*FEW, *OTHERS) if name.startswith("text_")])
def test_texts_are_numbered(models: Path, name: str) -> None:
    """In the order of scikit-learn's classes, which is sorted."""
    (module,) = hilc.compile(models / f"{name}.onnx", shapes=SHAPE).modules
    (classes,) = module.class_labels
    assert classes.output in ("label", "output_label")
    assert classes.labels == tuple(sorted(set(np.load(models / f"{name}.npy").tolist())))
    assert module.outputs[0].dtype == "int64"


def test_scores_of_named_classes(models: Path) -> None:
    """The dictionaries of skl2onnx's default are the scores, and labels may be texts."""
    report = evaluated(
        models, "text_forest", "native", 40, output="output_probability", metric="top2"
    )
    assert report.is_met
    assert report.classes[0] == "eight"


def test_numbers_in_place_of_names(models: Path) -> None:
    names = np.load(models / "text_forest.npy")
    x = np.load(models / "x.npy")[:20]
    numbers = np.unique(names, return_inverse=True)[1][:20]
    with pytest.warns(HilWarning, match="taken as positions, 0 eight, 1 five"):
        report = hil.evaluate(
            models / "text_forest.onnx", x, numbers, board="native", shapes=SHAPE, at_least=1.0
        )
    assert report.is_met
    assert report.classes is not None
    assert report.classes[9] == "zero"


def test_a_name_of_no_class(models: Path) -> None:
    x = np.load(models / "x.npy")[:2]
    with pytest.raises(InputError, match="'ten'"):
        hil.evaluate(
            models / "text_forest.onnx", x, np.array(["one", "ten"]), board="native", shapes=SHAPE
        )


def test_the_command_names_the_classes(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from hil.cli import main

    target = models / "text.tar"
    words = ["compile", str(models / "text_forest.onnx"), "--shape", "X=1,64", "-o", str(target)]
    assert main(words) == 0
    assert "output_label is the number of a class: 0 eight, 1 five" in capsys.readouterr().out
    assert hilc.ModelLibrary.load(target).modules[0].class_labels[0].labels[9] == "zero"
