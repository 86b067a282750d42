"""The process that runs TensorFlow Lite Micro for :mod:`hilc.references.tflm`.

TFLM is C++ that trusts its model: too small an arena, or a failed assertion of an operator, ends
the process. This file is executed by its path and imports nothing of the compiler, so it starts in
a quarter of a second.

A message, over the socket on stdin, is two 32-bit lengths, a JSON object and the bytes of its
arrays. Each request gets one answer, which contains ``error`` if TFLM rejected it. TFLM prints on
stderr, which the other side reads.
"""

from __future__ import annotations

import json
import resource
import socket
import struct
import sys
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


def _serve(link: socket.socket) -> None:
    import numpy as np
    from tflite_micro.python.tflite_micro import _runtime

    models: dict[int, Any] = {}
    configs = _runtime.PythonInterpreterConfig
    write_message(link, {})

    def answer(request: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
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
                interpreter, start = models[request["model"]], 0
                for index, (dtype, shape) in enumerate(request["inputs"]):
                    array = np.zeros(shape, dtype)
                    part = payload[start : start + array.nbytes]
                    interpreter.SetInputTensor(np.frombuffer(part, dtype).reshape(shape), index)
                    start += array.nbytes
                interpreter.Invoke()
                arrays = [
                    np.asarray(interpreter.GetTensor(index, 0)["tensor_data"])
                    for index in request["tensors"]
                ] + [np.asarray(interpreter.GetOutputTensor(i)) for i in range(request["outputs"])]
                described = [[array.dtype.name, array.shape] for array in arrays]
                return {"arrays": described}, b"".join(array.tobytes() for array in arrays)
        return {}, b""

    while True:
        sizes = HEAD.unpack(_exactly(link, HEAD.size))
        request, payload = json.loads(_exactly(link, sizes[0])), _exactly(link, sizes[1])
        try:
            message, data = answer(request, payload)
        except (RuntimeError, ValueError, IndexError, MemoryError) as error:
            message, data = {"error": " ".join(str(error).split()) or type(error).__name__}, b""
        write_message(link, message, data)


if __name__ == "__main__":
    # Do not import from this file's folder.
    del sys.path[0]
    _limit = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (_limit, _limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _serve(socket.socket(fileno=0))
