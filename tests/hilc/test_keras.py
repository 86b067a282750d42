"""Networks as Keras users build them, converted by TensorFlow: equal to the reference, or refused.

:data:`REFUSED` is the one place of what cannot be compiled yet. ``make keras`` prints how many of
the files are equal, and what is refused, by operator.
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
    TYPES,
    KerasFile,
    compare_on_host,
    compiled,
    reference_of_file,
    refused_operators,
)

from hilc.errors import ModelError
from hilc.frontends import load_model
from hilc.ir import FixedSize
from hilc.transforms import run_passes


@dataclass(frozen=True)
class Refused:
    """Files that are refused because of an operator: those of ``networks`` that have it."""

    operator: str
    reason: str
    #: Names, separated by spaces.
    networks: str
    types: Sequence[str] = TYPES

    def __contains__(self, file: KerasFile) -> bool:
        return (
            file.network in self.networks.split()
            and file.type in self.types
            and self.operator in file.operators
        )


_UNKNOWN = "not implemented"

#: What cannot be compiled yet. An entry that starts to work must go, or shrink.
REFUSED: Sequence[Refused] = (
    Refused("ABS", _UNKNOWN, "siamese"),
    Refused("ARG_MAX", _UNKNOWN, "best_class"),
    Refused("BATCH_MATMUL", _UNKNOWN, "dot_attention transformer vision_transformer two_tower"),
    Refused("BATCH_TO_SPACE_ND", _UNKNOWN, "separable tcn wavenet"),
    Refused("BUCKETIZE", _UNKNOWN, "discretized"),
    Refused("CONV_3D", _UNKNOWN, "cnn_3d"),
    Refused("DEPTH_TO_SPACE", _UNKNOWN, "super_resolution"),
    Refused("ELU", _UNKNOWN, "regression"),
    Refused("EXP", _UNKNOWN, "regression yolo"),
    Refused("GELU", _UNKNOWN, "convnext transformer vision_transformer"),
    Refused("GREATER", _UNKNOWN, "regression"),
    Refused("IMAG", _UNKNOWN, "mel"),
    Refused("LESS", _UNKNOWN, "embedding text_cnn discretized"),
    Refused("LOG", _UNKNOWN, "regression spectrum mel"),
    Refused("MAXIMUM", "only of constants", "maxout"),
    Refused("MIRROR_PAD", _UNKNOWN, "mel"),
    Refused("NEG", _UNKNOWN, "separable convnext transformer vision_transformer normalizations"),
    Refused("ONE_HOT", _UNKNOWN, "one_hot"),
    Refused("REAL", _UNKNOWN, "mel"),
    Refused(
        "REDUCE_MAX",
        _UNKNOWN,
        "resnet_v2 separable_1d spatial_attention text_cnn best_class mel",
    ),
    Refused("RESIZE_BILINEAR", _UNKNOWN, "unet_resize preprocessing"),
    Refused("REVERSE_V2", _UNKNOWN, "bidirectional_fused"),
    Refused("RFFT2D", _UNKNOWN, "mel"),
    Refused("RSQRT", _UNKNOWN, "convnext transformer vision_transformer normalizations two_tower"),
    Refused("SELECT", _UNKNOWN, "regression embedding text_cnn discretized"),
    Refused("SELECT_V2", _UNKNOWN, "regression embedding text_cnn discretized"),
    Refused("SPACE_TO_BATCH_ND", _UNKNOWN, "separable tcn wavenet"),
    Refused("SPACE_TO_DEPTH", _UNKNOWN, "space_to_depth"),
    Refused("SPLIT_V", _UNKNOWN, "mel"),
    Refused("SQRT", _UNKNOWN, "siamese mel"),
    Refused("SQUARE", _UNKNOWN, "normalizations two_tower spectrum mel"),
    Refused("SQUARED_DIFFERENCE", _UNKNOWN, "convnext transformer vision_transformer"),
    Refused("SUM", _UNKNOWN, "attention normalizations siamese two_tower"),
    Refused("TILE", _UNKNOWN, "seq2seq conv_autoencoder"),
    Refused("TRANSPOSE_CONV", _UNKNOWN, "unet_transposed denoiser_1d"),
    Refused("UNIDIRECTIONAL_SEQUENCE_LSTM", _UNKNOWN, "lstm_fused bidirectional_fused"),
    Refused(
        "UNPACK",
        _UNKNOWN,
        "lstm_unrolled lstm_stacked gru_unrolled bidirectional simple_rnn crnn seq2seq",
    ),
    Refused("WHILE", _UNKNOWN, "lstm gru conv_lstm"),
)


#: What TFLM refuses of the others: compared with litert-ref.
NOT_IN_TFLM: Sequence[Refused] = (Refused("REDUCE_PROD", _UNKNOWN, "mlp_mixer"),)


def rows_of(file: KerasFile, rows: Sequence[Refused] = REFUSED) -> set[str]:
    """The operators because of which a table says that a file is refused."""
    return {row.operator for row in rows if file in row}


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
    """Files that are built into one shared library; the first few are a file of each network."""
    sample = keras_files.one_of_each(keras_files.listing())
    rest = [file for file in keras_files.files() if file not in sample]
    return [
        (f"{kind}{number // _GROUP}", chosen[number : number + _GROUP])
        for kind, chosen in (("sample", sample), ("rest", rest))
        for number in range(0, len(chosen), _GROUP)
    ]


_GROUP = 24
_GROUPS = dict(_groups())


@tflm.needs_tflm
@pytest.mark.parametrize(
    "group", sampled(_GROUPS, keep=[name for name in _GROUPS if name.startswith("sample")])
)
def test_on_the_host(group: str, tmp_path: Path) -> None:
    """Every layer's bytes, of floats within the bound that ``hil verify`` has for them."""
    libraries = {file: compiled(file) for file in _accepted(_GROUPS[group])}
    for _, report in compare_on_host(libraries, tmp_path):
        report.check()


@tflm.needs_tflm
def test_tflm_runs_what_its_table_does_not_name() -> None:
    for file in _accepted(keras_files.files()):
        expected = "litert-ref" if rows_of(file, NOT_IN_TFLM) else "tflm"
        assert reference_of_file(file) == expected, file.name


def _accepted(files: Iterable[KerasFile]) -> list[KerasFile]:
    return [file for file in files if not rows_of(file)]


def test_open_batches_are_fixed_and_said_so() -> None:
    for file in _accepted(keras_files.files()):
        graph = load_model(file.data)
        fixed = [FixedSize(name, 0, 1) for name in graph.inputs] if file.batch == "open" else []
        assert list(graph.fixed_sizes) == fixed, file.name
        assert not {"SHAPE", "GATHER", "FILL"} & {node.op for node in graph.nodes}, file.name


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
