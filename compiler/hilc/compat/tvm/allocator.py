"""Workspaces from ``TVMBackendAllocWorkspace``: pools=calls."""

from __future__ import annotations

from hilc.codegen.allocator import Allocator

#: Headers that declare the workspace functions and the function look-up.
BACKEND_API = "tvm/runtime/c_backend_api.h"


class BackendAllocator(Allocator):
    """TVM's functions that allocate and free workspaces."""

    function = "TVMBackendAllocWorkspace"
    header = BACKEND_API

    def allocate(self, nbytes: int) -> str:
        """Return the C call that allocates ``nbytes`` on the CPU."""
        # Bytes on the CPU (device 1, 0), declared as int8 (0, 8).
        return f"{self.function}(1, 0, {nbytes}, 0, 8)"

    def free(self, pointer: str) -> str:
        """Return the C call that frees the variable ``pointer``; it evaluates to 0 on success."""
        return f"TVMBackendFreeWorkspace(1, 0, {pointer})"
