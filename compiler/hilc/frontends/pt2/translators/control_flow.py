"""Branches and loops, whose graphs become graphs of ONNX's If and Loop."""

from __future__ import annotations

from hilc.frontends.pt2.model import OnnxModel, Operation, Outputs, Run, translates
from hilc.frontends.pt2.program import Ref, Region, Signature

_FLAG = Signature("bool", ())
_COUNT = Signature("int64", ())


@translates("higher_order.cond")
def cond(c: Operation) -> Outputs:
    """Translate torch.cond to If; a condition known at the export selects a branch."""
    condition, then, other, operands = (c.get(str(position)) for position in range(4))
    given = [c.named(ref) for ref in operands or () if isinstance(ref, Ref)]
    if isinstance(condition, bool):
        return c.inlined(then if condition else other, given)

    def branch(name: str, region: Region) -> object:
        return c.graph(name, [], lambda run, model: run(region, given, model))

    return c.emit_many(
        "If", [c.tensor("0")], len(c.output_refs),
        then_branch=branch("then", then), else_branch=branch("else", other),
    )  # fmt: skip


@translates("higher_order.while_loop")
def while_loop(c: Operation) -> Outputs:
    """Translate while_loop to Loop without a number of turns.

    PyTorch asks for the condition before each turn, and ONNX after it for the next one.
    """
    condition, body, carried, further = (c.get(str(position)) for position in range(4))
    if not all(isinstance(ref, Ref) for ref in carried):
        c.refuse("carries a Python number from turn to turn", "carry a tensor, torch.tensor(0)")
    first = [c.named(ref) for ref in carried]
    fixed = [c.named(ref) for ref in further or () if isinstance(ref, Ref)]
    inputs = [(c.new_name(), c.signature_of(ref)) for ref in carried]

    def turn(run: Run, model: OnnxModel) -> list[tuple[str, Signature]]:
        made = run(body, [*(name for name, _ in inputs), *fixed], model)
        (goes_on,) = run(condition, [*(name for name, _ in made), *fixed], model)
        return [goes_on, *made]

    graph = c.graph("body", [(c.new_name(), _COUNT), (c.new_name(), _FLAG), *inputs], turn)
    (begins,) = c.inlined(condition, [*first, *fixed])
    return c.emit_many("Loop", ["", begins, *first], len(first), body=graph)
