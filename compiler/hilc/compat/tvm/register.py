"""Registration of the microTVM features with the registries of :mod:`hilc.plugins`."""

from __future__ import annotations

from hilc.artifact.foreign import provide_foreign_reader
from hilc.artifact.shipped import provide_shipped_runtime
from hilc.codegen.allocator import provide_allocator
from hilc.codegen.dialects import CONVENTIONS, INTERFACES
from hilc.codegen.function_table import provide_function_table
from hilc.codegen.headers import provide_headers
from hilc.codegen.options import provide_option_check
from hilc.compat.tvm.allocator import BackendAllocator
from hilc.compat.tvm.archive import TvmReader
from hilc.compat.tvm.convention import Packed
from hilc.compat.tvm.crt import INCLUDE, ShippedCrt
from hilc.compat.tvm.executor import AotModule
from hilc.compat.tvm.host import TvmRuntime
from hilc.compat.tvm.interface import PackedInterface
from hilc.compat.tvm.options import check_options
from hilc.compat.tvm.system_lib import SystemLib
from hilc.executor import provide_executor
from hilc.host.runtime import provide_host_runtime


def register() -> None:
    """Register the packed interface, the allocator, the runtimes and the archive reader."""
    provide_option_check(check_options)
    CONVENTIONS.add("packed", Packed())
    INTERFACES.add("packed", PackedInterface())
    provide_allocator(BackendAllocator())
    provide_function_table(SystemLib())
    provide_headers(INCLUDE)
    provide_foreign_reader(TvmReader())
    provide_shipped_runtime(ShippedCrt())
    provide_host_runtime(TvmRuntime())
    provide_executor(AotModule)
