"""Code of one module in an archive of TVM's: its interface, its functions, its memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn

from hilc.artifact.manifest import IDENTIFIER
from hilc.compat.tvm.text import definition, registry_names, without_comments
from hilc.errors import InputError
from hilc.target import get_cpu
from hilc.target.objects import require_fits

_FOLDER = "codegen/host"
# Longer headers are not TVM's output for a microcontroller.
_MAX_HEADER = 1 << 20
# Suffix of the main's name up to TVM 0.8.
_OLD_MAIN = "_run_model"
# Files that compilers leave beside their objects.
_BESIDE = ("su", "d")
_ALLOCATE = b"TVMBackendAllocWorkspace"


class Code:
    """Facts from the header, the sources and the objects of a module.

    ``label`` names the module in messages. Raise :class:`~hilc.errors.InputError` if there is no
    code to build or it contradicts its header.
    """

    def __init__(self, files: Mapping[str, bytes], name: str, label: str) -> None:
        self.label = label
        pattern = re.compile(rf"{_FOLDER}/(?:src|lib)/{re.escape(name)}_lib\d{{1,4}}\.(\w+)")
        found = {path: m[1] for path in sorted(files) if (m := pattern.fullmatch(path))}
        libraries = {path: kind for path, kind in found.items() if kind not in _BESIDE}
        for path, kind in libraries.items():
            if kind not in ("c", "o"):
                self.refuse(f"has {path}; only C sources and objects can be built")
        if not libraries:
            self.refuse(f"has neither {_FOLDER}/src/{name}_lib0.c nor {_FOLDER}/lib/{name}_lib0.o")
        #: Text of each C source and bytes of each object, by path.
        self.sources = {
            path: files[path].decode("utf-8", "replace")
            for path, kind in libraries.items()
            if kind == "c"
        }
        self.objects = {path: files[path] for path, kind in libraries.items() if kind == "o"}
        self._read_header(files, name)
        self._check_entry_point()

    def refuse(self, fact: str, hint: str = "export the model again") -> NoReturn:
        """Raise the error that the module cannot be used."""
        raise InputError(f"{self.label} {fact}", hint)

    # The header ---------------------------------------------------------------------------------

    def _read_header(self, files: Mapping[str, bytes], name: str) -> None:
        # TVM lowers the case of its C interface, and only of that.
        lower = f"tvmgen_{name.lower()}"
        data = files.get(f"{_FOLDER}/include/{lower}.h")
        text = (data or b"")[:_MAX_HEADER].decode("utf-8", "replace")
        self._header = without_comments(text)
        run = re.search(rf"\b{lower}_run\s{{0,99}}\(\s{{0,99}}(\w*)", self._header)
        if data is not None and run is None:
            self.refuse(f"has a header that does not declare {lower}_run")
        #: Whether it is called through structs of pointers instead of the packed convention.
        self.is_c = run is not None and run[1] != "TVMValue"
        #: Stem of the entry point's and the header's names.
        self.symbol = lower if self.is_c else f"tvmgen_{name}"
        #: Stem of the main's name.
        self.mangled = f"tvmgen_{name}"
        self._macros = {
            macro: int(value)
            for macro, value in re.findall(
                r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\d{1,15})[ \t]*$", self._header, re.M
            )
        }

        if not self.is_c and any(macro.endswith("_POOL_SIZE") for macro in self._macros):
            self.refuse(
                "takes pools through the packed interface, and does not say which",
                f"keep its hil/{name}.json",
            )

    @property
    def maps_tensors(self) -> bool:
        """Whether inputs and outputs are in the pools, where map functions find them."""
        return re.search(rf"\b{self.symbol}_map_inputs\s{{0,99}}\(", self._header) is not None

    def macro(self, what: str) -> int | None:
        """Return the number ``<SYMBOL>_<WHAT>``; None if the header does not define it."""
        return self._macros.get(f"{self.symbol}_{what}".upper())

    def struct(self, what: str) -> tuple[str, ...]:
        """Return the fields of ``struct <symbol>_<what>``; empty if the header does not define
        it.
        """
        head = rf"\bstruct\s{{1,99}}{self.symbol}_{what}\s{{0,99}}\{{"
        start = re.search(head, self._header)
        if start is None:
            return ()
        end = self._header.find("}", start.end())
        fields = []
        for member in self._header[start.end() : end].split(";")[:-1]:
            match = re.fullmatch(r"void\s*\*\s*(\w+)", member.strip(), re.ASCII)
            if match is None or not IDENTIFIER.fullmatch(match[1]):
                self.refuse(f"has the member {member.strip()[:40]!r} in its struct {what}")
            fields.append(match[1])
        return tuple(fields)

    # The functions ------------------------------------------------------------------------------

    def _check_entry_point(self) -> None:
        function = f"{self.symbol}_run"
        found = [
            body[0]
            for text in self.sources.values()
            if (body := definition(text, function)) is not None
        ]
        expected = rf"struct\s+{self.symbol}_\w+\s*\*|void\s*$" if self.is_c else _PACKED
        for parameters in found:
            if not re.match(rf"\s*(?:{expected})", parameters):
                self.refuse(f"defines {function} with the parameters of another interface")
        if found or any(f"{function}\0".encode() in o for o in self.objects.values()):
            return
        old = f"{self.mangled}{_OLD_MAIN}"
        if self._defines(old):
            self.refuse(
                f"has no entry point but {old}, as TVM up to 0.8 wrote: its arguments are pointers "
                "whose order and sizes nothing in the archive says",
                "export it with TVM 0.9 or later, or with TVM 0.8 and -interface-api=c, whose "
                f"header declares {function}",
            )
        self.refuse(f"does not define its entry point {function}")

    def entry_body(self) -> str | None:
        """Return the text of the entry point; None if it is in an object."""
        bodies = (definition(text, f"{self.symbol}_run") for text in self.sources.values())
        return next((body[1] for body in bodies if body is not None), None)

    @property
    def has_packed_main(self) -> bool:
        """Whether main and operators take packed arguments; objects do not record it."""
        main = re.compile(
            rf"\b{self.mangled}(?:___tvm_main__|{_OLD_MAIN})\s{{0,99}}\(\s{{0,99}}(?:{_PACKED})"
        )
        return not self.is_c and any(main.search(text) for text in self.sources.values())

    def functions(self) -> tuple[str, ...]:
        """Return the functions that take packed arguments, those of the registry first."""
        if self.is_c:
            return ()
        own = [f"{self.symbol}_run"]
        if self._defines(f"{self.symbol}_get_c_metadata"):
            own.append(f"{self.symbol}_get_c_metadata")
        names = [name for text in self.sources.values() for name in registry_names(text)]
        if not self.has_packed_main:
            names = [name for name in names if name in own]
        for name in names:
            if not IDENTIFIER.fullmatch(name):
                self.refuse(f"registers the function {name[:40]!r}, which is not a C name")
        return tuple(dict.fromkeys([*names, *own]))

    def _defines(self, function: str) -> bool:
        return any(definition(text, function) for text in self.sources.values()) or any(
            f"{function}\0".encode() in data for data in self.objects.values()
        )

    def map_function(self, kind: str) -> dict[str, tuple[str, int]]:
        """Return pool and offset of each field, from the body of ``<symbol>_map_<kind>``."""
        for text in self.sources.values():
            found = definition(text, f"{self.symbol}_map_{kind}")
            if found is not None:
                place = (
                    r"\.(\w+)\s*=\s*&\s*\(\s*\(\s*uint8_t\s*\*\s*\)\s*"
                    r"workspace_pools\s*->\s*(\w+)\s*\)\s*\[(\d{1,15})\]"
                )
                return {f: (pool, int(o)) for f, pool, o in re.findall(place, found[1])}
        return {}

    # Memory -------------------------------------------------------------------------------------

    def allocations(self, operators: int) -> int:
        """Return the number of allocations in the code; ``operators`` is the number of functions in
        which an object may have them.
        """
        calls = sum(text.encode().count(_ALLOCATE + b"(") for text in self.sources.values())
        if any(_ALLOCATE in data for data in self.objects.values()):
            # Unknown for an object: assume a few blocks in each function.
            calls += 4 * (operators + 1)
        return calls

    def check_objects(self, cpu: str) -> None:
        """Raise unless the core ``cpu`` can execute the objects, as far as they record it."""
        for path, data in self.objects.items():
            require_fits(data, get_cpu(cpu), f"{self.label}: {path}")


# Beginning of a packed function's parameters.
_PACKED = r"(?:TVMValue|void)\s{0,99}\*\s{0,99}args\s{0,99},"
