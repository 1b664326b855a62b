"""``backward-once``: several losses of one graph are summed, and taken backward together."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from perftui.fixes.fix import line_fix
from perftui.fixes.line_change import place_of
from perftui.fixes.model import Risk
from perftui.fixes.source.edits import Edit, ReplaceExpression, insert_before, insert_behind, remove
from perftui.script.program import PatchRefusedError, Program, called_name
from perftui.script.training import TRAINS, statement_at

_NAMES = ("losses", "all_losses", "summed_losses")
_LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)


def summed(program: Program, line: int) -> Sequence[Edit]:
    """The backward passes at ``line`` and beside it, or of the loop around it, as one."""
    statement = statement_at(program, line)
    call = _backward(statement)
    if call is None:
        raise PatchRefusedError(f"line {line} does more than run backward from a loss")
    row = _row(program, statement)
    if len(row) > 1:
        return _row_summed(program, row)
    loop = program.parents[statement]
    if not isinstance(loop, ast.For) or not _keeps_graph(call):
        raise PatchRefusedError(f"no other backward pass of the same graph is next to line {line}")
    _refuse_unlike(program, loop, call)
    name = next((one for one in _NAMES if not program.bindings(one)), None)
    if name is None:
        raise PatchRefusedError("all names for a list of losses are taken")
    return (
        insert_before(program, loop, f"{name} = []"),
        ReplaceExpression(program.span(call), f"{name}.append({_loss(call)})"),
        insert_behind(program, loop, f"sum({name}).backward()", known=(name,)),
    )


def _row(program: Program, statement: ast.stmt) -> list[ast.stmt]:
    """Backward passes that follow one another, with ``statement`` among them; all but the last keep
    the graph."""
    block = program.block(statement)
    first = last = block.index(statement)
    while first > 0 and _keeps_graph(_backward(block[first - 1])):
        first -= 1
    while last + 1 < len(block) and _keeps_graph(_backward(block[last])):
        if _backward(block[last + 1]) is None:
            break
        last += 1
    return block[first : last + 1]


def _row_summed(program: Program, row: list[ast.stmt]) -> Sequence[Edit]:
    calls = [call for one in row if (call := _backward(one)) is not None]
    losses = [_loss(call) for call in calls]
    if len(set(losses)) < len(losses):
        raise PatchRefusedError("backward runs twice from one loss")
    text = ast.unparse(ast.Call(calls[-1].func, calls[-1].args, calls[-1].keywords))
    once = text.replace(losses[-1], f"({' + '.join(losses)})", 1)
    removed = [remove(program, one) for one in row[:-1]]
    return [*removed, ReplaceExpression(program.span(calls[-1]), once)]


def _backward(statement: ast.stmt) -> ast.Call | None:
    """``loss.backward()`` of a plain name, with or without ``retain_graph``."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.args:
        return None
    plain = isinstance(call.func.value, (ast.Name, ast.Attribute))
    is_known = {one.arg for one in call.keywords} <= {"retain_graph"}
    return call if call.func.attr == "backward" and plain and is_known else None


def _keeps_graph(call: ast.Call | None) -> bool:
    given = {one.arg: ast.unparse(one.value) for one in call.keywords} if call else {}
    return given.get("retain_graph") == "True"


def _loss(call: ast.Call) -> str:
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _refuse_unlike(program: Program, loop: ast.For, call: ast.Call) -> None:
    """Nothing where each turn of ``loop`` only computes a loss and takes it backward.

    Raises:
        PatchRefusedError: a turn may read gradients, or not come to its end.
    """
    for node in ast.walk(loop):
        trains = isinstance(node, ast.Call) and node is not call and called_name(node) in TRAINS
        reads = isinstance(node, ast.Attribute) and node.attr == "grad"
        # The list would have the loss as it is changed.
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target) == _loss(call):
            raise PatchRefusedError(f"line {node.lineno} changes the loss")
        if trains or reads or isinstance(node, _LEAVES):
            at = getattr(node, "lineno", loop.lineno)
            raise PatchRefusedError(f"line {at} may need the gradients of each iteration")
    if loop.orelse:
        raise PatchRefusedError("the loop has an else clause")
    scope = program.scope(loop)
    others = [one for one in program.calls("backward") if program.scope(one) is scope]
    if others != [call]:
        raise PatchRefusedError("the function also runs backward elsewhere")


BACKWARD_ONCE = line_fix(
    id="backward-once",
    what="sum losses of one graph and run backward once",
    explanation=(
        "The gradient of a sum is the sum of the gradients, which is what several backward passes "
        "add up to. Backward now runs through the shared layers once. Results differ in the last "
        "digits. The graphs of all losses are kept until then."
    ),
    at=place_of,
    rules=("repeated-backward",),
    title="one backward pass of the sum of the losses",
    plan=summed,
    advice="(first + second).backward()",
    risks=(Risk.NUMERICS, Risk.MEMORY),
)
