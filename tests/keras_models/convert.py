#!/usr/bin/env python3
"""Convert the networks of ``architectures.py`` by TensorFlow's converter: ``models.tar.xz``.

A development tool; the tests read what it wrote. It runs in an environment of its own::

    python3 -m venv keras-venv
    keras-venv/bin/pip install -e '.[keras]'
    keras-venv/bin/python tests/keras_models/convert.py [NAME...]

Each network becomes int8, 16x8 (int16 activations, int8 weights) and float32, with an open batch
and with a batch of 1: up to six files, named ``NAME.TYPE.BATCH.tflite``. ``models.json`` lists them
with their operators, the numbers that integer inputs take, and what the converter refuses. With
names, the files of these networks are replaced and all others kept.

Weights, and the inputs that the quantization is calibrated on, are random numbers seeded by the
network's name, so each run writes the same bytes. A conversion has a process of its own: some make
the converter crash, and names of tensors count what the process has built before.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import lzma
import os
import re
import signal
import sys
import tarfile
import tempfile
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
ARCHIVE = HERE / "models.tar.xz"
LISTING = HERE / "models.json"

TYPES = ("int8", "int16", "float32")
BATCHES = {"open": None, "fixed": 1}
CALIBRATION_SAMPLES = 20


def main() -> None:
    from keras_models.architectures import ARCHITECTURES

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks; all without any")
    chosen = parser.parse_args().names
    if unknown := set(chosen) - set(ARCHITECTURES):
        parser.error(f"unknown {', '.join(sorted(unknown))}; there are {', '.join(ARCHITECTURES)}")
    files, listing = _read() if chosen else ({}, {})
    converted: dict[str, Any] = {}
    for name in ARCHITECTURES:
        if chosen and name not in chosen:
            if name in listing:
                converted[name] = listing[name]
            continue
        files = {path: data for path, data in files.items() if path.split(".")[0] != name}
        print(name, end="", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            converted[name] = _convert_all(name, Path(folder), files)
        print(f": {len(converted[name]['files'])} files")
    _write(files, converted)
    print(f"{len(files)} files, {sum(map(len, files.values()))} bytes, in {ARCHIVE.name}")


# --- one network ------------------------------------------------------------------------------


def _convert_all(name: str, folder: Path, files: dict[str, bytes]) -> dict[str, Any]:
    """Put the network's files into ``files``; its entry of the listing."""
    entry: dict[str, Any] = {"files": {}, "refused": {}}
    for kind in TYPES:
        for batch in BATCHES:
            form = f"{kind}.{batch}"
            outcome = folder / form
            pid = os.fork()
            if pid == 0:
                _in_child(name, kind, BATCHES[batch], outcome)
            _, status = os.waitpid(pid, 0)
            if os.WIFSIGNALED(status):
                died = signal.Signals(os.WTERMSIG(status)).name
                entry["refused"][form] = f"the converter dies of {died}"
                continue
            result = json.loads((folder / f"{form}.json").read_text())
            entry.update(result.pop("model", {}))
            if "refused" in result:
                entry["refused"][form] = result["refused"]
                continue
            files[f"{name}.{form}.tflite"] = outcome.read_bytes()
            entry["files"][form] = result
    return entry


def _in_child(name: str, kind: str, batch: int | None, outcome: Path) -> None:
    """Convert, write the model or the reason, end the process."""
    status = 1
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(quiet, descriptor)
        # TensorFlow removes its generated modules when a process exits, which this one does not do.
        tempfile.tempdir = os.environ["TMPDIR"] = str(outcome.parent)
        outcome.with_name(f"{outcome.name}.json").write_text(
            json.dumps(_convert(name, kind, batch, outcome))
        )
        status = 0
    finally:
        os._exit(status)


def _convert(name: str, kind: str, batch: int | None, outcome: Path) -> dict[str, Any]:
    import keras
    import numpy as np
    from keras_models.architectures import ARCHITECTURES, INDICES

    seed = zlib.crc32(name.encode())
    keras.utils.set_random_seed(seed)
    model = ARCHITECTURES[name](batch)
    rng = np.random.default_rng(seed)
    _set_weights(model, rng)
    samples = [_sample(model, rng, INDICES) for _ in range(CALIBRATION_SAMPLES)]
    described = {
        "parameters": int(model.count_params()),
        "indices": {x.name: INDICES[x.name] for x in model.inputs if x.name in INDICES},
    }
    for may_compute_floats in (False, True):
        try:
            data = _by_tensorflow(model, kind, samples, may_compute_floats)
            break
        except Exception as error:
            reason = _shortened(str(error))
            # What 16x8 has no kernels for may stay float32, as many a user allows.
            if may_compute_floats or "Quantization to 16x8-bit not yet" not in reason:
                return {"model": described, "refused": reason}
    outcome.write_bytes(data)
    return {
        "model": described,
        "bytes": len(data),
        "operators": _operators(data),
        **({"may_compute_floats": True} if may_compute_floats else {}),
    }


def _set_weights(model: Any, rng: Any) -> None:
    """Fill with numbers what starts as zeros or ones, so that leaving it out shows."""
    for variable in model.weights:
        path = getattr(variable, "path", variable.name)
        kind = path.split("/")[-1].split(":")[0]
        if kind in ("gamma", "moving_variance"):
            variable.assign(rng.uniform(0.5, 1.5, variable.shape))
        elif kind in ("beta", "bias", "moving_mean"):
            variable.assign(rng.normal(0, 0.2, variable.shape))
        elif kind == "alpha":
            variable.assign(rng.uniform(0, 0.3, variable.shape))


def _sample(model: Any, rng: Any, indices: dict[str, int]) -> dict[str, Any]:
    """An input of each name, as the converter calibrates on it."""
    sample = {}
    for x in model.inputs:
        shape = (1, *x.shape[1:])
        if x.name in indices:
            sample[x.name] = rng.integers(0, indices[x.name], shape).astype("int32")
        else:
            sample[x.name] = rng.normal(0, 1, shape).astype("float32")
    return sample


def _by_tensorflow(
    model: Any, kind: str, samples: list[dict[str, Any]], may_compute_floats: bool
) -> bytes:
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if kind != "float32":
        sets = tf.lite.OpsSet
        quantized = {
            "int8": sets.TFLITE_BUILTINS_INT8,
            "int16": sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8,
        }
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: iter(samples)
        converter.target_spec.supported_ops = [quantized[kind]]
        if may_compute_floats:
            converter.target_spec.supported_ops.append(sets.TFLITE_BUILTINS)
        activations = getattr(tf, kind)
        if all(x.dtype != "int32" for x in model.inputs):
            converter.inference_input_type = activations
        converter.inference_output_type = activations
    with contextlib.redirect_stdout(io.StringIO()):
        data: bytes = converter.convert()
    return data


#: What the converter says in many thousands of characters.
_REASONS = (
    re.compile(r"'tf\.\w+' op (?:is neither a custom op nor a flex op|requires [\w ]+)"),
    re.compile(r"failed to legalize operation '[\w.]+'"),
    re.compile(r"Quantization to 16x8-bit not yet supported for op: '\w+'"),
    re.compile(r"Max and min for dynamic tensors should be recorded during calibration"),
)


def _shortened(message: str) -> str:
    for pattern in _REASONS:
        if found := dict.fromkeys(pattern.findall(message)):
            return "; ".join(found).replace(" during TF Lite transformation pass", "")
    return " ".join(message.split())[:200]


def _operators(data: bytes) -> dict[str, int]:
    """How often each operator stands in the file's graphs."""
    import tflite

    names = {value: name for name, value in vars(tflite.BuiltinOperator).items()}
    model = tflite.Model.GetRootAs(data, 0)
    counts: Counter[str] = Counter()
    for i in range(model.SubgraphsLength()):
        graph = model.Subgraphs(i)
        for j in range(graph.OperatorsLength()):
            code = model.OperatorCodes(graph.Operators(j).OpcodeIndex())
            counts[names[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())]] += 1
    return dict(sorted(counts.items()))


# --- the archive ------------------------------------------------------------------------------


def _read() -> tuple[dict[str, bytes], dict[str, Any]]:
    with tarfile.open(ARCHIVE) as archive:
        files = {
            member.name: file.read()
            for member in archive.getmembers()
            if (file := archive.extractfile(member))
        }
    return files, json.loads(LISTING.read_text())["networks"]


def _write(files: dict[str, bytes], converted: dict[str, Any]) -> None:
    import keras
    import tensorflow as tf

    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    ARCHIVE.write_bytes(lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    listing = {
        "converter": f"tensorflow {tf.__version__}, keras {keras.__version__}",
        "networks": converted,
    }
    LISTING.write_text(json.dumps(listing, indent=1) + "\n")


if __name__ == "__main__":
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="0")
    main()
