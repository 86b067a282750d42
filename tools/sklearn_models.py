#!/usr/bin/env python3
"""Writes tests/sklearn_models.tar.xz: classifiers of scikit-learn, and what its predict gives.

For each classifier NAME: NAME.onnx as skl2onnx converts it by default, and NAME.npy with the labels
of x.npy, samples of the handwritten digits which no training saw. It needs scikit-learn and
skl2onnx, which the environment of ci/locks/sklearn.txt has; the tests need only the file.

With ``--check`` it fits the classifiers again and compares them with the file: exit code 1 where
scikit-learn gives another label.
"""

from __future__ import annotations

import argparse
import io
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

TARGET = Path(__file__).resolve().parents[1] / "tests" / "sklearn_models.tar.xz"
NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
SAMPLES = 360


def classifiers() -> dict[str, Any]:
    """Return the classifiers by name; those whose name begins with text_ have labels of texts."""
    forest = {"n_estimators": 8, "max_depth": 6, "random_state": 0}
    mlp = {"hidden_layer_sizes": (24,), "max_iter": 60, "random_state": 0}
    scaled = StandardScaler
    return {
        "forest": RandomForestClassifier(**forest),
        "extra_trees": ExtraTreesClassifier(**forest),
        "tree": DecisionTreeClassifier(random_state=0),
        "boosted": GradientBoostingClassifier(n_estimators=4, random_state=0),
        "ada": AdaBoostClassifier(n_estimators=8, random_state=0),
        "svc": SVC(),
        "linear_svc": LinearSVC(random_state=0),
        "mlp": make_pipeline(scaled(), MLPClassifier(**mlp)),
        "logistic": make_pipeline(scaled(), LogisticRegression(max_iter=200)),
        "bayes": GaussianNB(),
        "neighbours": KNeighborsClassifier(3),
        "text_forest": RandomForestClassifier(**forest),
        "text_svc": SVC(),
        "text_mlp": make_pipeline(scaled(), MLPClassifier(**mlp)),
        "text_logistic": make_pipeline(scaled(), LogisticRegression(max_iter=200)),
        "text_bayes": GaussianNB(),
        "text_neighbours": KNeighborsClassifier(3),
    }


def made() -> dict[str, bytes]:
    """Fit all classifiers; return the files of the archive."""
    x, y = load_digits(return_X_y=True)
    train, test, labels, _ = train_test_split(
        x.astype(np.float32), y, test_size=SAMPLES, random_state=0
    )
    files = {"x.npy": _npy(test)}
    for name, model in classifiers().items():
        # Neighbours and support vectors are parts of the model.
        count = 200 if "neighbours" in name or name.endswith("svc") else len(train)
        known = NAMES[labels] if name.startswith("text_") else labels
        model.fit(train[:count], known[:count])
        files[f"{name}.onnx"] = to_onnx(model, test[:1]).SerializeToString()
        files[f"{name}.npy"] = _npy(model.predict(test))
    return files


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def main() -> int:
    """Write the archive, or check it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the archive")
    if parser.parse_args().check:
        files = made()
        with tarfile.open(TARGET) as archive:
            stored = {m.name: _read(archive, m) for m in archive if m.name.endswith(".npy")}
        other = [name for name, data in stored.items() if files.get(name) != data]
        print(f"{len(stored)} arrays, {len(other)} differ: {', '.join(other)}")
        return 1 if other else 0
    with tarfile.open(TARGET, "w:xz", preset=9) as archive:
        for name, data in sorted(made().items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")
    return 0


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None
    return file.read()


if __name__ == "__main__":
    sys.exit(main())
