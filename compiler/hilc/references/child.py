"""The process that runs one of TensorFlow's runtimes, or onnxruntime, for
:mod:`hilc.references.process`.

They are C++ that trusts its model: too small an arena, or a failed assertion of an operator, ends
the process. This file is executed by its path and imports nothing of the compiler, so it starts in
a quarter of a second.

A message, over the socket on stdin, is two 32-bit lengths, a JSON object and the bytes of its
arrays. Each request gets one answer, which contains ``error`` if the runtime rejected it. It prints
on stderr, which the other side reads.
"""

from __future__ import annotations

import importlib
import json
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any

HEAD = struct.Struct("<II")


def write_message(link: socket.socket, message: dict[str, Any], payload: bytes = b"") -> None:
    """Send a message; ``payload`` contains the bytes of its arrays."""
    text = json.dumps(message).encode()
    link.sendall(HEAD.pack(len(text), len(payload)) + text + payload)


def _exactly(link: socket.socket, count: int) -> bytes:
    """Return the next ``count`` bytes; end the process at the end of the input."""
    parts = []
    while count:
        part = link.recv(min(count, 1 << 20))
        if not part:
            sys.exit(0)
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


Answer = tuple[dict[str, Any], bytes]


def _given(request: dict[str, Any], payload: bytes) -> Iterator[Any]:
    """Yield the arrays of a request."""
    import numpy as np

    start = 0
    for dtype, shape in request["inputs"]:
        array = np.zeros(shape, dtype)
        part = payload[start : start + array.nbytes]
        yield np.frombuffer(part, dtype).reshape(shape)
        start += array.nbytes


def _answer(arrays: list[Any]) -> Answer:
    described = [None if array is None else [array.dtype.name, array.shape] for array in arrays]
    return {"arrays": described}, b"".join(a.tobytes() for a in arrays if a is not None)


def _tflite_micro() -> Callable[[dict[str, Any], bytes], Answer]:
    """Return the server that runs models with TensorFlow Lite Micro."""
    import numpy as np
    from tflite_micro.python.tflite_micro import _runtime

    models: dict[int, Any] = {}
    configs = _runtime.PythonInterpreterConfig

    def answer(request: dict[str, Any], payload: bytes) -> Answer:
        match request["do"]:
            case "load":
                preserve = configs.kPreserveAllTensors
                config = configs.kAllocationRecording if request["recording"] else preserve
                models[request["model"]] = _runtime.InterpreterWrapper(
                    payload, [], request["arena"], request["variables"], config, 0
                )
            case "drop":
                models.pop(request["model"], None)
            case "print":
                models[request["model"]].PrintAllocations()
            case "run":
                interpreter = models[request["model"]]
                for index, array in enumerate(_given(request, payload)):
                    interpreter.SetInputTensor(array, index)
                interpreter.Invoke()
                tensors = [interpreter.GetTensor(i, 0)["tensor_data"] for i in request["tensors"]]
                outputs = [interpreter.GetOutputTensor(i) for i in range(request["outputs"])]
                return _answer([np.asarray(array) for array in (*tensors, *outputs)])
        return {}, b""

    return answer


def _tflite(package: str) -> Callable[[dict[str, Any], bytes], Answer]:
    """Return the server that runs models with a release of TFLite's reference kernels."""
    module = importlib.import_module(f"{package}.interpreter")
    models: dict[int, Any] = {}

    def value(interpreter: Any, index: int) -> Any:
        """Return a tensor's value; None for an unread tensor of a loop, which is freed."""
        try:
            return interpreter.get_tensor(index)
        except ValueError:
            return None

    def answer(request: dict[str, Any], payload: bytes) -> Answer:
        match request["do"]:
            case "load":
                models[request["model"]] = interpreter = module.Interpreter(
                    model_content=payload,
                    num_threads=1,
                    experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF,
                    # Otherwise tensors share memory, and only the outputs survive a run.
                    experimental_preserve_all_tensors=True,
                )
                interpreter.allocate_tensors()
            case "drop":
                models.pop(request["model"], None)
            case "reset":
                models[request["model"]].reset_all_variables()
            case "run":
                interpreter = models[request["model"]]
                given = _given(request, payload)
                for index, array in zip(request["at"], given, strict=True):
                    interpreter.set_tensor(index, array)
                interpreter.invoke()
                return _answer([value(interpreter, index) for index in request["tensors"]])
        return {}, b""

    return answer


#: Types of tensors of onnxruntime that numpy has.
_NUMPY_TYPES = frozenset(
    f"tensor({name})"
    for name in (
        *("float", "double", "float16", "bool"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
)


def _onnxruntime() -> Callable[[dict[str, Any], bytes], Answer]:
    """Return the server that runs models with onnxruntime's kernels of the CPU, one per node."""
    import onnxruntime

    models: dict[int, Any] = {}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # an error is an exception as well

    def answer(request: dict[str, Any], payload: bytes) -> Answer:
        match request["do"]:
            case "load":
                models[request["model"]] = onnxruntime.InferenceSession(
                    payload, options, providers=["CPUExecutionProvider"]
                )
            case "drop":
                models.pop(request["model"], None)
            case "reset":
                session = models[request["model"]]
                return {
                    "inputs": [x.name for x in session.get_inputs()],
                    "outputs": [y.name for y in session.get_outputs() if y.type in _NUMPY_TYPES],
                }, b""
            case "run":
                session = models[request["model"]]
                given = dict(zip(request["at"], _given(request, payload), strict=True))
                return _answer(session.run(request["tensors"], given))
        return {}, b""

    def answered(request: dict[str, Any], payload: bytes) -> Answer:
        try:
            return answer(request, payload)
        except Exception as error:  # its exceptions have no common base of their own
            raise RuntimeError(str(error) or type(error).__name__) from error

    return answered


def _serve(link: socket.socket, answer: Callable[[dict[str, Any], bytes], Answer]) -> None:
    write_message(link, {})
    while True:
        sizes = HEAD.unpack(_exactly(link, HEAD.size))
        request, payload = json.loads(_exactly(link, sizes[0])), _exactly(link, sizes[1])
        try:
            message, data = answer(request, payload)
        except (RuntimeError, ValueError, IndexError, MemoryError) as error:
            message, data = {"error": " ".join(str(error).split()) or type(error).__name__}, b""
        write_message(link, message, data)


def _limit_memory(nbytes: int) -> None:
    """Limit the address space to ``nbytes``, or a lower limit of the user; write no core files."""
    import resource

    present, _ = resource.getrlimit(resource.RLIMIT_AS)
    if present != resource.RLIM_INFINITY:
        nbytes = min(nbytes, present)
    resource.setrlimit(resource.RLIMIT_AS, (nbytes, nbytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    # Do not import from this file's folder.
    del sys.path[0]
    _limit, _runtime = int(sys.argv[1]), sys.argv[2]
    # macOS refuses limits of the address space, and Windows has none.
    if sys.platform == "linux":
        _limit_memory(_limit)
    _serve(
        socket.socket(fileno=0),
        {"tflite_micro": _tflite_micro, "onnxruntime": _onnxruntime}.get(
            _runtime, lambda: _tflite(_runtime)
        )(),
    )
