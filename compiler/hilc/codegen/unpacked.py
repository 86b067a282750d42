"""Operators with plain pointer arguments: api=unpacked."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

from hilc.codegen.arguments import MainArgument, Operator
from hilc.codegen.calls import checked_call, guarded_call, passing_call
from hilc.codegen.convention import Calls, Convention, External
from hilc.codegen.cwriter import c_wrapped
from hilc.codegen.described import Argument
from hilc.codegen.options import Options
from hilc.ir import Tensor


class Unpacked(Convention):
    """Calling convention with a C parameter for each tensor, pool and device."""

    def main_prototype(self, function: str, arguments: Sequence[MainArgument]) -> str:
        """Return the main's declaration, without the semicolon."""
        # Wrapped with the semicolon that follows.
        return _main_head(function, arguments, ");").removesuffix(";")

    def external_prototype(
        self,
        symbol: str,
        input_count: int,
        output_count: int,
        *,
        has_scratch: bool,
        has_device: bool,
    ) -> str:
        """Return the declaration of an external function: one ``void *`` for each argument."""
        parameters = external_parameters(input_count, output_count, has_scratch, has_device)
        return c_wrapped(f"int32_t {symbol}(", parameters, ")")

    def external_function(
        self,
        symbol: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        has_scratch: bool,
        body: str,
    ) -> str:
        """Return the definition of an external function around ``body``."""
        parameters = external_parameters(len(inputs), len(outputs), has_scratch, has_device=False)
        return function_text(f"int32_t {symbol}(", parameters, body)

    def calls(self, options: Options) -> Calls:
        """Return a writer of plain C calls."""
        return _Calls()


class _Calls(Calls):
    def function(self, operator: Operator, body: str, pool: str) -> str:
        names = operator.parameters
        given = pool % "constants" if "constants" in names else ""
        head = f"int32_t {operator.function}("
        return f"{c_wrapped(head, [f'void *{n}' for n in names], ') {')}\n{given}{body}}}\n"

    def external(self, call: External) -> tuple[str, str]:
        outputs = len(call.tensors) - call.input_count
        parameters = external_parameters(
            call.input_count, outputs, bool(call.scratch_bytes), call.has_device
        )
        passed = [text for text, _ in call.tensors]
        passed += ["scratch"] * bool(call.scratch_bytes) + ["device"] * call.has_device
        statements = call.preparation + guarded_call(call.symbol, passed, call.guards)
        return c_wrapped(f"int32_t {call.symbol}(", parameters, ");\n"), statements

    def main_head(
        self,
        function: str,
        arguments: Sequence[MainArgument],
        used: AbstractSet[int],
        has_operators: bool,
    ) -> str:
        unused = [a.name for index, a in enumerate(arguments) if index not in used]
        head = _main_head(function, arguments, ") {\n")
        return head + "".join(f"    (void){variable};\n" for variable in unused)

    def layers(self, operators: Sequence[Operator], pointer: Callable[[Argument], str]) -> str:
        return "".join(
            (passing_call if operator.has_status else checked_call)(
                operator.function, list(map(pointer, operator.arguments))
            )
            for operator in operators
        )


def _main_head(function: str, arguments: Sequence[MainArgument], tail: str) -> str:
    parameters = [f"{argument.c_type}{argument.name}" for argument in arguments]
    return c_wrapped(f"int32_t {function}(", parameters or ["void"], tail)


def function_text(head: str, parameters: Sequence[str], body: str) -> str:
    """Return the definition of a function; parameters that ``body`` does not read are marked."""
    names = [parameter.rpartition("*")[2] for parameter in parameters]
    unused = "".join(
        f"    (void){name};\n" for name in names if not re.search(rf"\b{name}\b", body)
    )
    return f"{c_wrapped(head, parameters, ') {')}\n{unused}{body}}}\n"


def external_parameters(
    input_count: int, output_count: int, has_scratch: bool, has_device: bool
) -> list[str]:
    """Return the parameters of another code generator's function."""
    parameters = [f"void *input{i}" for i in range(input_count)]
    parameters += [f"void *output{i}" for i in range(output_count)]
    return parameters + ["void *scratch"] * has_scratch + ["void *device"] * has_device
