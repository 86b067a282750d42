"""A shared object in this process: its functions and data by name."""

from __future__ import annotations

import _ctypes
import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from hilc.errors import InputError
from hilc.ir import Array
from hilc.support.temporary import TemporaryFolder

#: Of POSIX, or of Windows.
_UNLOAD: Any = getattr(_ctypes, "dlclose", None) or getattr(_ctypes, "FreeLibrary", None)


class Code:
    """A loaded shared object; ``folder``, which holds it, is deleted when it is closed."""

    def __init__(self, path: Path, folder: TemporaryFolder) -> None:
        self._library: ctypes.CDLL | None = ctypes.CDLL(str(path))
        self._folder = folder

    def close(self) -> None:
        """Unload the library and delete its folder; a second call has no effect."""
        if self._library is not None:
            _UNLOAD(self._library._handle)
            self._library = None
            self._folder.cleanup()

    def function(self, name: str, result: Any = ctypes.c_int32) -> Any:
        """Return the C function ``name``, which returns ``result``."""
        function = self._opened()[name]
        function.restype = result
        return function

    def has(self, name: str) -> bool:
        """Return whether the library exports ``name``."""
        return hasattr(self._opened(), name)

    def data_address(self, name: str) -> int:
        """Return the address of the variable ``name``.

        Raises ValueError if the library does not export it.
        """
        return ctypes.addressof(ctypes.c_char.in_dll(self._opened(), name))

    def data(self, name: str, nbytes: int) -> Array:
        """Return the bytes of the C array ``name``, which are those of the object itself."""
        memory = (ctypes.c_uint8 * nbytes).from_address(self.data_address(name))
        array: Array = np.ctypeslib.as_array(memory)
        return array

    def data_text(self, name: str) -> bytes:
        """Return the bytes of a C string."""
        return ctypes.string_at(self.data_address(name))

    def _opened(self) -> ctypes.CDLL:
        if self._library is None:
            raise closed()
        return self._library


def closed() -> InputError:
    """Return the error for a model that is closed."""
    return InputError("the model is closed", "load it again")
