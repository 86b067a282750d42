"""The process in which TensorFlow Lite Micro runs; :mod:`hilc.references.tflm` talks to it.

TFLM is C++ that trusts its model: an arena that is too small or an operator that it checks by an
assertion ends the process. This file is run by its path and imports nothing of the compiler, so
that a new process is there in a quarter of a second.

A message, over the socket that is this process's stdin, is two lengths of 32 bits, a JSON object
and the bytes of its arrays one after the other. Each request gets one answer, which has ``error``
where TFLM refused. What TFLM prints goes to stderr, which the other side reads.
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
    """Send a message; ``payload`` is what its arrays hold."""
    text = json.dumps(message).encode()
    link.sendall(HEAD.pack(len(text), len(payload)) + text + payload)


def _exactly(link: socket.socket, count: int) -> bytes:
    """Return the next ``count`` bytes; the process ends where nobody sends any more."""
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
    # The folder of this file is no place to import from.
    del sys.path[0]
    _limit = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (_limit, _limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _serve(socket.socket(fileno=0))
