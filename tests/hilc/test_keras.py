"""Networks as Keras users build them, converted by TensorFlow: equal to the reference, or refused.

:data:`REFUSED` is the one place of what cannot be compiled yet. ``measure.py keras_networks``
prints how many of the files are equal, and what is refused, by operator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import keras_files
import pytest
import tflm
from campaigns import sampled
from keras_files import (
    DIFFERENT,
    KerasFile,
    compare_on_host,
    compiled,
    reference_of_file,
    refused_by_tflm,
    refused_operators,
)

from hilc.errors import ModelError
from hilc.frontends import load_model, read_model
from hilc.ir import FixedSize
from hilc.transforms import run_passes


@dataclass(frozen=True)
class Refused:
    """Files that are refused because of an operator: those of ``networks`` that have it."""

    operator: str
    reason: str
    #: Names, separated by spaces.
    networks: str
    #: Types and batches: "int16", "open", "int16.open"; all where there are none.
    forms: Sequence[str] = ()

    def __contains__(self, file: KerasFile) -> bool:
        return (
            file.network in self.networks.split()
            and self.operator in file.operators
            and (not self.forms or any(file.has_form(form) for form in self.forms))
        )


#: What cannot be compiled. An entry that starts to work must go, or shrink. TFLite Micro runs two
#: of the networks, and gives wrong answers.
REFUSED: Sequence[Refused] = (
    Refused(
        "QUANTIZE",
        "a constant of 1e7 goes to a scale of 3e-5; TFLM's shift overflows, and the largest number "
        "becomes the least one, -1",
        "two_tower",
        ("int16",),
    ),
    Refused(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "its output has another scale than its state; TFLM takes the numbers of one for those of "
        "the other, by a factor of 1.5",
        "bidirectional_fused",
        ("int8",),
    ),
    Refused(
        "DEQUANTIZE",
        "it reads a variable that is no state of its own; TFLM refuses it",
        "bidirectional_fused",
        ("int16",),
    ),
    Refused(
        "FULLY_CONNECTED",
        "the scales of its weights are infinite, those of its bias no numbers",
        "gru_unrolled crnn",
        ("int16.open",),
    ),
    Refused(
        "SELECT",
        "its operands have other scales; TFLM has no SELECT",
        "regression",
        ("int16.fixed",),
    ),
    Refused("SPLIT_V", "an output without elements; TFLM has no RANGE", "mel", ("open",)),
)


#: What TFLM refuses of the others; the reason is what they are compared with: ``litert-ref``, or
#: this compiler's interpreter where that refuses them, too.
NOT_IN_TFLM: Sequence[Refused] = (
    Refused("RESIZE_BILINEAR", "litert-ref", "unet_resize preprocessing", ("int16",)),
    Refused(
        "REDUCE_MAX",
        "litert-ref",
        "resnet_v2 separable_1d spatial_attention best_class",
        ("int16",),
    ),
    Refused("REDUCE_PROD", "litert-ref", "attention", ("float32",)),
    Refused("REDUCE_PROD", "no reference", "attention", ("int8", "int16")),
    Refused("SELECT", "litert-ref", "embedding text_cnn"),
    Refused("SELECT_V2", "litert-ref", "embedding text_cnn"),
    Refused("STRIDED_SLICE", "litert-ref", "conv_lstm"),
    Refused("BUCKETIZE", "litert-ref", "discretized"),
    Refused("CONV_3D", "litert-ref", "cnn_3d"),
    Refused("EXP", "litert-ref", "yolo", ("int16", "int8")),
    Refused("EXP", "no reference", "regression", ("int16.open", "int8.open")),
    Refused(
        "FILL",
        "litert-ref",
        "lstm_unrolled lstm_stacked gru_unrolled bidirectional simple_rnn crnn",
        ("float32", "int8"),
    ),
    Refused(
        "FILL",
        "litert-ref",
        "lstm_unrolled lstm_stacked bidirectional simple_rnn",
        ("int16.open",),
    ),
    Refused(
        "GELU",
        "litert-ref",
        "convnext transformer vision_transformer",
        ("float32.fixed", "int8.fixed"),
    ),
    Refused("GELU", "no reference", "convnext transformer vision_transformer", ("int16.fixed",)),
    Refused("REDUCE_PROD", "no reference", "convnext transformer vision_transformer", ("int16",)),
    Refused("ONE_HOT", "litert-ref", "one_hot"),
    Refused("RFFT2D", "no reference", "mel", ("fixed",)),
    Refused("SQRT", "no reference", "siamese", ("int8",)),
    Refused("LOG", "litert-ref", "spectrum", ("int8",)),
    Refused("REDUCE_PROD", "litert-ref", "dot_attention mlp_mixer"),
    Refused(
        "REDUCE_PROD",
        "litert-ref",
        "convnext transformer vision_transformer",
        ("float32", "int8"),
    ),
    Refused("SELECT", "no reference", "regression", ("float32", "int8")),
    Refused("SPACE_TO_BATCH_ND", "litert-ref", "tcn"),
    Refused("SPACE_TO_BATCH_ND", "litert-ref", "separable", ("float32", "int8", "int16.open")),
    Refused(
        "SPACE_TO_BATCH_ND",
        "litert-ref",
        "wavenet",
        ("float32.open", "int16.fixed", "int16.open", "int8.open"),
    ),
    Refused("TILE", "litert-ref", "seq2seq conv_autoencoder", ("float32",)),
    Refused("TILE", "no reference", "conv_autoencoder", ("int16", "int8")),
    Refused("TILE", "no reference", "seq2seq", ("int16", "int8")),
)


def rows_of(file: KerasFile) -> set[str]:
    """The operators because of which the table says that a file is refused."""
    return {row.operator for row in REFUSED if file in row}


@pytest.mark.full
def test_the_table_says_what_is_refused() -> None:
    """Of every file: what is not in the table compiles, what is in it does not."""
    wrong: dict[str, list[str]] = defaultdict(list)
    named = set()
    for file in keras_files.files():
        expected = rows_of(file)
        try:
            run_passes(load_model(file.data))
        except ModelError as error:
            operators = set(refused_operators(error))
            named |= operators
            if not operators <= expected:
                wrong[f"not in the table: {error.fact}"].append(file.name)
        else:
            if expected:
                what = f"compiles, but the table has it under {', '.join(sorted(expected))}"
                wrong[what].append(file.name)
    # Each is what stops some file, not only beside others that do.
    for row in REFUSED:
        if not any(file in row for file in keras_files.files()):
            wrong["concerns no file"].append(row.operator)
        elif row.operator not in named:
            wrong["refuses nothing any more"].append(row.operator)
    assert not wrong, "\n".join(f"{what}: {', '.join(names)}" for what, names in wrong.items())


def _groups() -> list[tuple[str, list[KerasFile]]]:
    """Files that are built into one shared library; the first are a file of each second network."""
    sample = keras_files.one_of_each(keras_files.listing())[::2]
    rest = [file for file in keras_files.files() if file not in sample]
    return [
        (f"{kind}{number // _GROUP}", chosen[number : number + _GROUP])
        for kind, chosen in (("sample", sample), ("rest", rest))
        for number in range(0, len(chosen), _GROUP)
    ]


_GROUP = 12
_GROUPS = dict(_groups())


@tflm.needs_tflm
@pytest.mark.parametrize("group", sampled(_GROUPS, keep=["sample0"]))
def test_on_the_host(group: str, tmp_path: Path) -> None:
    """Every layer's bytes, of floats within the bound that ``hil verify`` has for them."""
    libraries = {file: compiled(file) for file in _accepted(_GROUPS[group])}
    for file, report in compare_on_host(libraries, tmp_path):
        if file.name in DIFFERENT:
            assert not report.match, f"{file.name} is equal now"
        else:
            report.check()


@pytest.mark.full
@tflm.needs_tflm
def test_tflm_runs_what_its_table_does_not_name() -> None:
    for file in _accepted(keras_files.files()):
        operator = refused_by_tflm(file)
        rows = [row for row in NOT_IN_TFLM if file in row]
        assert operator in {row.operator for row in rows} if operator else not rows, file.name
        if operator:
            reason = {"litert-ref": "litert-ref", "hilc": "no reference"}[reference_of_file(file)]
            assert reason in {row.reason for row in rows}, file.name


def _accepted(files: Iterable[KerasFile]) -> list[KerasFile]:
    return [file for file in files if not rows_of(file)]


@pytest.mark.full
def test_open_batches_are_fixed_and_said_so() -> None:
    for file in _accepted(keras_files.files()):
        read = read_model(file.data)
        graph = read.graph
        fixed = [FixedSize(name, 0, 1) for name in graph.inputs] if file.batch == "open" else []
        assert list(read.fixed_sizes) == fixed, file.name
        assert not {"SHAPE", "RANK"} & {node.op for node in graph.nodes}, file.name


def test_all_networks_are_there() -> None:
    """Forty at least, in all types and both batches but for what the converter refuses."""
    networks = keras_files.listing()
    assert sum(bool(entry["files"]) for entry in networks.values()) >= 40
    for network, entry in networks.items():
        forms = {*entry["files"], *entry["refused"]}
        assert len(forms) == len(entry["files"]) + len(entry["refused"]) == 6, network
        assert all(entry["refused"].values()), network
    archived = {file.name for file in keras_files.files() if file.data[4:8] == b"TFL3"}
    assert len(archived) == sum(len(entry["files"]) for entry in networks.values())
