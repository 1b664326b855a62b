"""The loop around a line that only evaluates, so that nothing of it needs gradients."""

from __future__ import annotations

import ast
import re

from perftui.fixes.source.gradient_flow import refuse_differentiated
from perftui.fixes.source.known_calls import words
from perftui.fixes.source.names import qualified_name
from perftui.fixes.source.observers import reached
from perftui.fixes.source.program import Function, Loop, PatchRefusedError, Program, called_name
from perftui.fixes.source.step_loop import statement_at
from perftui.fixes.source.training_calls import may_train, trains

_EVALUATES = frozenset(
    {
        *("eval", "evaluate", "evaluation", "val", "valid", "validate", "validation", "test"),
        *("testing", "accuracy", "predict", "prediction", "predictions", "infer", "inference"),
        *("metric", "metrics", "score", "scores"),
    }
)
_NO_GRAD = re.compile(r"no_grad|inference_mode|set_grad_enabled")
_NEEDS = re.compile(r"^(requires_grad_|enable_grad|grad|set_grad_enabled|jacobian|vjp|hessian)$")


def evaluation_loop(program: Program, line: int) -> Loop:
    """The outermost loop around ``line`` within its function that does not train.

    Raises:
        PatchRefusedError: there is none, nothing says that it evaluates, or gradients through what
            it computes may be needed.
    """
    node: ast.AST = statement_at(program, line)
    loops = [node] if isinstance(node, Loop) else []
    for above in program.ancestors(node):
        if isinstance(above, Function) or trains(program, above):
            break
        if isinstance(above, Loop):
            loops.append(above)
    if not loops or trains(program, loops[-1]):
        raise PatchRefusedError(f"line {line} is not in a loop that only evaluates")
    loop = loops[-1]
    _refuse_unless_evaluating(program, loop)
    _refuse_training(program, loop)
    if _is_without(program, loop):
        raise PatchRefusedError(f"the loop at line {loop.lineno} already records no gradients")
    refuse_differentiated(program, loop)
    return loop


def _refuse_unless_evaluating(program: Program, loop: Loop) -> None:
    """Nothing where the function is named for it, or a model was switched to evaluation before."""
    function = next((one for one in program.ancestors(loop) if isinstance(one, Function)), None)
    if function is not None and _EVALUATES & words(function.name):
        return
    switches = [
        (call.lineno, called_name(call))
        for call in program.calls("eval", "train")
        if isinstance(call.func, ast.Attribute)
        and program.scope(call) is program.scope(loop)
        and call.lineno <= loop.lineno
    ]
    last = max(switches, default=(0, ""))
    if last[1] != "eval":
        raise PatchRefusedError(f"nothing shows that the loop at line {loop.lineno} evaluates")


def _refuse_training(program: Program, loop: Loop) -> None:
    called = may_train(program, loop)
    if called:
        raise PatchRefusedError(f"the loop at line {loop.lineno} calls {called}")
    for node, _ in reached(program, loop):
        if isinstance(node, ast.Call) and _NEEDS.match(called_name(node)):
            raise PatchRefusedError(f"line {node.lineno} calls {called_name(node)}()")
        if isinstance(node, (ast.Yield, ast.YieldFrom)) and node in set(ast.walk(loop)):
            raise PatchRefusedError(f"line {node.lineno} passes on what the loop computes")


def _is_without(program: Program, loop: Loop) -> bool:
    """Whether the loop, or all that it does, is under ``no_grad`` already."""
    for above in program.ancestors(loop):
        if isinstance(above, (ast.With, ast.AsyncWith)) and _is_off(program, above):
            return True
        if isinstance(above, Function):
            if any(_NO_GRAD.search(ast.unparse(one)) for one in above.decorator_list):
                return True
            break
    inner = [one for one in loop.body if isinstance(one, (ast.With, ast.AsyncWith))]
    return any(_is_off(program, one) for one in inner)


def _is_off(program: Program, block: ast.With | ast.AsyncWith) -> bool:
    called = (
        item.context_expr.func for item in block.items if isinstance(item.context_expr, ast.Call)
    )
    names = (qualified_name(program, func) or ast.unparse(func) for func in called)
    return any(_NO_GRAD.search(name) for name in names)
