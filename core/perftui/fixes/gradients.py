"""Gradients: from one backward pass, none where nothing is trained, and how DistributedDataParallel
reduces them."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from functools import lru_cache

from perftui.diagnosis.symptoms.script.evaluation import evaluation
from perftui.facts.fact import Facts
from perftui.facts.settings import settings
from perftui.fixes.fix import (
    LineChange,
    NamedLine,
    Plan,
    finding_line,
    finding_line_or_script,
    fix,
    has_finding,
    line_fix,
    place_of_loop,
    script_with_finding,
)
from perftui.fixes.option import Risk
from perftui.fixes.source.calls import CallSpec, each_changed
from perftui.fixes.source.edits import (
    Edit,
    ReplaceExpression,
    insert_before,
    insert_behind,
    remove,
    wrap,
)
from perftui.run.manifest import Override
from perftui.script.evaluation import evaluation_loop
from perftui.script.names import module_name
from perftui.script.program import (
    Literal,
    PatchRefusedError,
    Program,
    called_name,
    free_name,
    variables,
)
from perftui.script.steps import loop_of, micro_batches, refuse_late
from perftui.script.training import (
    TRAINS,
    WRAPPER,
    WRAPPERS,
    refuse_mentioned,
    statement_at,
    training_loop,
    untrained_modules,
    wrapped_model,
    wrapper_call,
)

_LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)


@line_fix(
    what="sum losses of one graph and run backward once",
    title="one backward pass of the sum of the losses",
    advice="(first + second).backward()",
    risks=(Risk.NUMERICS, Risk.MEMORY),
)
def backward_once(program: Program, line: int) -> Sequence[Edit]:
    """The gradient of a sum is the sum of the gradients, which is what several backward passes add
    up to. Backward now runs through the shared layers once. Results differ in the last digits. The
    graphs of all losses are kept until then."""
    # The backward passes at ``line`` and beside it, or of the loop around it, as one.
    statement = statement_at(program, line)
    call = _backward(statement)
    if call is None:
        raise PatchRefusedError(f"line {line} does more than run backward from a loss")
    row = _row(program, statement)
    if len(row) > 1:
        calls = [call for node in row if (call := _backward(node)) is not None]
        losses = [_loss(call) for call in calls]
        if len(set(losses)) < len(losses):
            raise PatchRefusedError("backward runs twice from one loss")
        text = ast.unparse(ast.Call(calls[-1].func, calls[-1].args, calls[-1].keywords))
        once = text.replace(losses[-1], f"({' + '.join(losses)})", 1)
        removed = [remove(program, node) for node in row[:-1]]
        return [*removed, ReplaceExpression(program.span(calls[-1]), once)]
    loop = program.parents[statement]
    if not isinstance(loop, ast.For) or not _keeps_graph(call):
        raise PatchRefusedError(f"no other backward pass of the same graph is next to line {line}")
    _refuse_unlike(program, loop, call)
    name = free_name(program, "a list of losses", "losses", "all_losses", "summed_losses")
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


def _backward(statement: ast.stmt) -> ast.Call | None:
    """``loss.backward()`` of a plain name, with or without ``retain_graph``."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.args:
        return None
    plain = isinstance(call.func.value, (ast.Name, ast.Attribute))
    is_known = {kw.arg for kw in call.keywords} <= {"retain_graph"}
    return call if call.func.attr == "backward" and plain and is_known else None


def _keeps_graph(call: ast.Call | None) -> bool:
    keywords = {kw.arg: ast.unparse(kw.value) for kw in call.keywords} if call else {}
    return keywords.get("retain_graph") == "True"


def _loss(call: ast.Call) -> str:
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _refuse_unlike(program: Program, loop: ast.For, call: ast.Call) -> None:
    """Refuse unless each turn of ``loop`` only computes a loss and takes it backward: a turn may
    read gradients, or not come to its end."""
    for node in ast.walk(loop):
        trains = isinstance(node, ast.Call) and node is not call and called_name(node) in TRAINS
        reads = isinstance(node, ast.Attribute) and node.attr == "grad"
        # The list would hold the changed loss.
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target) == _loss(call):
            raise PatchRefusedError(f"line {node.lineno} changes the loss")
        if trains or reads or isinstance(node, _LEAVES):
            at = getattr(node, "lineno", loop.lineno)
            raise PatchRefusedError(f"line {at} may need the gradients of each iteration")
    if loop.orelse:
        raise PatchRefusedError("the loop has an else clause")
    scope = program.scope(loop)
    others = [other for other in program.calls("backward") if program.scope(other) is scope]
    if others != [call]:
        raise PatchRefusedError("the function also runs backward elsewhere")


@lru_cache
def untrained_without(lines: tuple[int, ...]) -> Plan:
    """``backbone.requires_grad_(False)`` before the loop that trains, of each module called at
    ``lines``, where the run saw that no optimizer holds it."""

    def plan(program: Program, _: int) -> Sequence[Edit]:
        loop = training_loop(program)
        names = untrained_modules(program, loop, lines)
        return [insert_before(program, loop, f"{name}.requires_grad_(False)") for name in names]

    return plan


@fix(what="do not compute gradients for parameters that no optimizer holds", risks=(Risk.NORMS,))
def requires_grad_off(facts: Facts) -> LineChange | None:
    """Parameters that no optimizer holds get requires_grad_(False): backward skips their gradients
    and stops where nothing further down is trained. All other parameters train the same, unless
    gradients are clipped by their norm over all parameters, of which there are now fewer. In a
    trial the fix takes effect after three steps and leaves alone what the script changes itself; an
    optimizer created or extended later would not train these parameters."""
    setup = settings(facts)
    unused = sum(row.unused or 0 for row in setup.parameters or ())
    if not unused or not has_finding(facts, "unused-gradients"):
        return None
    file, line = place_of_loop(facts)
    own = os.path.realpath(file or "")
    modules = (row for row in setup.untrained or () if row.file == own and not row.path)
    lines = tuple(row.line for row in modules)
    return LineChange(
        f"no gradients for {unused} parameters that are in no optimizer",
        file,
        line,
        untrained_without(lines),
        "requires_grad_(False) on modules that are not trained, before the loop",
        Override("parameters", {"requires_grad": False}, fix=requires_grad_off.id),
    )


def _lacking_no_grad(facts: Facts, *rules: str) -> NamedLine | None:
    result = evaluation(facts)
    return finding_line(facts, *rules) if result is not None and result.lacks_no_grad else None


@line_fix(
    what="evaluate without recording gradients",
    at=_lacking_no_grad,
    title="evaluation without gradients",
    advice="evaluate under torch.no_grad()",
)
def no_grad(program: Program, line: int) -> Sequence[Edit]:
    """Nothing is kept for a backward pass that never runs: results are the same, with less memory.
    A backward pass through the evaluation would raise an error."""
    # The outermost loop around ``line`` that only evaluates, under ``torch.no_grad()``.
    loop = evaluation_loop(program, line)
    return (wrap(program, loop, loop, f"with {module_name(program, 'torch')}.no_grad()"),)


_SPEC = CallSpec(
    noun="wrapper",
    what="torch's DistributedDataParallel",
    names=dict.fromkeys(WRAPPERS, WRAPPER),
    defaults={"gradient_as_bucket_view": False, "find_unused_parameters": False},
    alike="parallel",
)


def _wrapped_with(program: Program, **arguments: Literal) -> Sequence[Edit]:
    """``arguments`` for the only call of DistributedDataParallel of the file."""
    edits = each_changed(_SPEC, program, wrapper_call(program), arguments)
    if not edits:
        raise PatchRefusedError("the call already has these arguments")
    return list(edits.values())


@line_fix(
    what="keep gradients in the reduction buckets",
    at=script_with_finding,
    title="gradients in buckets",
    advice="DistributedDataParallel(..., gradient_as_bucket_view=True)",
)
def ddp_bucket_view(program: Program, _: int) -> Sequence[Edit]:
    """Gradients are views of the buckets: they are not copied back and forth, and take memory only
    once. detach_() on a gradient then raises an error."""
    return _wrapped_with(program, gradient_as_bucket_view=True)


@line_fix(
    what="do not search for unused parameters in every step",
    at=script_with_finding,
    title="no search for unused",
    advice="DistributedDataParallel(..., find_unused_parameters=False)",
    risks=(Risk.UNUSED,),
)
def ddp_all_used(program: Program, _: int) -> Sequence[Edit]:
    """DistributedDataParallel does not traverse the graph after the forward pass. If a step leaves
    out a parameter after all, the next step raises an error that says so."""
    return _wrapped_with(program, find_unused_parameters=False)


@line_fix(
    what="reduce gradients once per optimizer step, not for each micro-batch",
    at=finding_line_or_script,
    title="gradients reduced once a step",
    advice="model.require_backward_grad_sync = (i + 1) % K == 0 before the forward pass",
    risks=(Risk.NUMERICS,),
)
def ddp_no_sync(program: Program, _: int) -> Sequence[Edit]:
    """Gradients of micro-batches add up on each rank and are reduced with those of the last
    micro-batch before the step, using the same switch of DistributedDataParallel as no_sync(). The
    sum is the same; its last digits differ. Buffers, such as those of batch norm, are also sent to
    the other ranks only once per step."""
    # Set before each forward pass whether its backward pass reduces gradients, as ``no_sync()``
    # does.
    switches = ("no_sync", "require_backward_grad_sync")
    refuse_mentioned(program, "already controls when gradients are reduced", *switches)
    passes = program.calls("backward")
    if len(passes) != 1:
        raise PatchRefusedError(f"the file runs backward in {len(passes)} places")
    if any(kw.arg in ("static_graph", None) for kw in wrapper_call(program).keywords):
        raise PatchRefusedError("a static graph is always reduced in its first backward pass")
    loop, backward = loop_of(program, passes[0])
    model = wrapped_model(program, loop)
    turns = micro_batches(program, loop, backward)
    uses = [at for at, part in enumerate(loop.body[: turns.decided]) if model in variables(part)]
    if not uses or uses[0] > backward:
        raise PatchRefusedError(f"the loop at line {loop.lineno} does not call {model}")
    if uses[-1] > backward:
        later = loop.body[uses[-1]].lineno
        raise PatchRefusedError(f"line {later} may need the gradients of each micro-batch")
    refuse_late(program, turns, uses[0])
    text = f"{model}.require_backward_grad_sync = {turns.last}"
    # The loop has read all names of the condition before.
    names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    edits: list[Edit] = [insert_before(program, loop.body[uses[0]], text, names)]
    if turns.unnamed is not None:
        edits.append(ReplaceExpression(program.span(turns.unnamed), turns.last.split()[0]))
    return edits
