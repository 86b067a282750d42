"""TVM's C runtime in this process, and packed functions called through it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hilc.artifact.manifest import Module
from hilc.compat.tvm.crt import CRT
from hilc.compat.tvm.metadata import Metadata, read_metadata
from hilc.compat.tvm.packed import Call, Handle, Result, TensorAt
from hilc.compat.tvm.symbols import get_metadata
from hilc.errors import HilError
from hilc.host.code import Code
from hilc.host.runtime import HostRuntime, Session


class TvmRuntime(HostRuntime):
    """TVM's C runtime, linked with a library for this machine."""

    def sources(self) -> Sequence[Path]:
        """Return the runtime's C files, with a platform for this machine."""
        # The files of an archive, and a platform for this machine (host/platform.c).
        return sorted(CRT.rglob("*.c"))

    def session(self, code: Code) -> Session:
        """Return the session of a library that was linked with it."""
        return _Session(code)


class _Session(Session):
    def __init__(self, code: Code) -> None:
        self._code = code

    def start(self, address: int, nbytes: int) -> int:
        start = self._code.function("hilc_host_start")
        return int(start(ctypes.c_void_p(address), ctypes.c_size_t(nbytes)))

    def last_error(self) -> str:
        text = self._code.function("TVMGetLastError", ctypes.c_char_p)()
        return text.decode("utf-8", "replace") if text else ""

    def workspace_left(self) -> int:
        return int(self._code.function("hilc_host_workspace_left", ctypes.c_size_t)())

    def call(self, function: str, arguments: Sequence[Any]) -> tuple[int, Callable[[], Result]]:
        call = Call(arguments)
        status = self._code.function("hilc_host_call_packed")(
            self._code.function(function),
            call.values,
            call.codes,
            call.count,
            ctypes.byref(call.result),
            ctypes.byref(call.result_code),
        )
        return status, call.take_result

    def tensor(self, address: int, shape: tuple[int, ...], dtype: str) -> TensorAt:
        return TensorAt(address, shape, dtype)

    def context(self, address: int | None) -> Handle:
        return Handle(address)

    def metadata_function(self, module: Module) -> str:
        return get_metadata(module.symbol)

    def metadata(self, result: Any) -> Metadata:
        if not isinstance(result, Handle):
            raise HilError(f"the metadata are {result!r}, which is not a handle")
        return read_metadata(result.address or 0)
