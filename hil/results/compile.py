"""The entries of commands that compile models, without a board that runs them.

Not imported by commands that need no compiler: its classes come from there.
"""

from __future__ import annotations

from dataclasses import dataclass

from hil.errors import Attempt
from hil.results.answer import entry_of
from hil.results.build import CompressedLayer
from hil.results.codec import omitted
from hilc.ir.annotations import ClassLabels, DynamicForm, FixedSize, FloatLayer, RoundedBias
from hilc.lowering.choice import ChoiceReport
from hilc.quantization.report import Accuracy, TensorNoise


@dataclass(frozen=True)
class WorkspacePool:
    """Memory that a model works in."""

    name: str
    bytes: int
    #: Memory region that the pool is placed in; None for any.
    region: str | None


@dataclass(frozen=True)
class ExternalLayer:
    """A layer that the code of a user or of another compiler computes."""

    #: Index of the layer.
    layer: int
    #: Name of the C function.
    function: str
    #: Name of the code generator.
    generator: str
    device: str | None
    program: str | None


@entry_of("compile")
@dataclass(frozen=True)
class CompileEntry:
    """A compiled model."""

    model: str
    cpu: str
    codegen: str
    api: str
    interface: str
    #: Goal of the compiler (``--optimize``); None for a library that does not record its goal.
    goal: str | None
    workspace_bytes: int
    state_bytes: int
    pools: tuple[WorkspacePool, ...]
    io_bytes: int
    #: Whether ``workspace_bytes`` includes ``io_bytes``.
    io_in_workspace: bool
    #: Rows of an input that is fed row by row; 0 for a whole input.
    fed_rows: int
    constants_bytes: int
    layer_count: int
    macs: int
    #: Channels and multiply-accumulates that the compiler removed from the model.
    folded_channels: int
    folded_macs: int
    #: Layers whose weights are stored compressed.
    compressed: tuple[CompressedLayer, ...]
    #: Sizes that were given to open axes of inputs (``--shape``).
    fixed_sizes: tuple[FixedSize, ...]
    #: Layers of a quantized model that are computed in floats.
    float_layers: tuple[FloatLayer, ...]
    rounded_biases: tuple[RoundedBias, ...]
    #: Texts of the classes whose numbers outputs return.
    class_labels: tuple[ClassLabels, ...]
    externals: tuple[ExternalLayer, ...]
    #: Workspace, inputs and outputs wherever they lie, and states.
    model_ram_bytes: int | None = omitted()
    #: Ways to compute dynamically quantized layers (`--dynamic`), the model's own first.
    dynamic_forms: tuple[DynamicForm, ...] = omitted(())
    #: The selected program; absent for a model that was compiled before.
    choice: ChoiceReport | None = omitted()
    #: ``estimate`` with ``--flash``: only commands that build firmware measure the flash.
    flash_limit_kept_by: str | None = omitted()
    #: The archive or folder with all models of the command, the files in it, and the time that the
    #: command took; absent where ``hil export`` wrote another library.
    output: str | None = omitted()
    files: tuple[str, ...] = omitted(())
    seconds: float | None = omitted()


@entry_of("export")
@dataclass(frozen=True)
class ExportEntry:
    """A library for another build system."""

    format: str
    library: str
    version: str
    cpu: str
    models: tuple[CompileEntry, ...]
    #: Whether the example compares its results with a reference's.
    example_compares: bool
    output: str
    files: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class OutputNoise:
    """Signal-to-quantization-noise ratio of an output in dB; None where nothing differs."""

    name: str
    sqnr_db: float | None


@entry_of("quantize")
@dataclass(frozen=True)
class QuantizeEntry:
    """A quantized model, and its distance from the float model."""

    model: str
    output: str
    calibration_samples: int
    calibrator: str
    activations: str
    per_channel: bool
    #: Samples that the noise was measured with.
    compared_samples: int
    #: None without labels.
    accuracy: Accuracy | None
    outputs: tuple[OutputNoise, ...]
    #: Quantized tensors, the noisiest first.
    tensors: tuple[TensorNoise, ...]
    #: Layers that were excluded, and compute on integers as all around them does.
    not_excluded: tuple[str, ...]
    #: Layers without an integer implementation.
    float_layers: tuple[FloatLayer, ...]
    seconds: float


@dataclass(frozen=True)
class KernelCount:
    """Measured count of one kernel of a layer."""

    variant: str
    count: int


@dataclass(frozen=True)
class TunedLayer:
    """A layer with the measured counts of its kernels."""

    name: str
    op: str
    kernels: tuple[KernelCount, ...]


@dataclass(frozen=True)
class TunedProgram:
    """A measured program."""

    #: Whether layers share one function for each kernel.
    sharing: str
    #: Number of fused groups.
    groups: int
    workspace_bytes: int
    count: int


@entry_of("tune")
@dataclass(frozen=True)
class TuneEntry:
    """Measurements of a model's kernels and programs on a board."""

    output: str
    #: Whether outputs were compared with the reference's.
    checked: bool
    model: str
    board: str
    cpu: str
    #: Unit of the counts.
    counter: str
    layers: tuple[TunedLayer, ...]
    programs: tuple[TunedProgram, ...]
    #: Steps that brought the board back.
    recoveries: tuple[Attempt, ...]
    seconds: float
