"""The whole model, compiled, replayed as CUDA graphs, or in another layout of memory."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial

from perftui.facts.cpu.machine import has_gpu
from perftui.facts.fact import Facts
from perftui.fixes.fix import LineChange, fix, has_finding, line_fix, script_with_finding
from perftui.fixes.option import Risk
from perftui.fixes.source.calls import CallSpec, call_at, each_changed
from perftui.fixes.source.edits import AddKeyword, Edit, ReplaceLiteral, insert_before_training
from perftui.script.names import module_name, qualified_name
from perftui.script.program import Loop, PatchRefusedError, Program, assigned_value, receiver
from perftui.script.training import model_name, refuse_mentioned, step_loop

_COMPILED = ("compile", "script", "trace", "make_graphed_callables")


def compiled(program: Program, _: int) -> Sequence[Edit]:
    """``model.compile()`` before the training loop: in place, so that names of its state stay."""
    refuse_mentioned(program, "already compiles something", *_COMPILED)
    model = model_name(program, step_loop(program))
    return (insert_before_training(program, model, f"{model}.compile()"),)


@line_fix(
    what="keep images and weights in channels-last layout",
    at=script_with_finding,
    title="channels last",
    advice="model.to(memory_format=torch.channels_last) before the training loop",
    risks=(Risk.NUMERICS,),
)
def channels_last(program: Program, _: int) -> Sequence[Edit]:
    """Convolutions compute in the layout that tensor cores need, without converting tensors before
    and after each. Code that calls view() on an image may raise an error."""
    # The weights of the model with channels last: convolutions bring what they are given into that
    # order once.
    refuse_mentioned(program, "already sets a memory format", "channels_last", "memory_format")
    model, torch = model_name(program, step_loop(program)), module_name(program, "torch")
    text = f"{model}.to(memory_format={torch}.channels_last)"
    return (insert_before_training(program, model, text),)


COMPILE = line_fix(
    id="compile",
    what="compile the model",
    explanation=(
        "torch.compile fuses small operators and launches fewer kernels. On the CPU it needs a "
        "C++ compiler. Compiling takes seconds to minutes at the start, and again for each new "
        "size."
    ),
    at=script_with_finding,
    title="model compiled",
    advice="model.compile() before the training loop",
    risks=(Risk.START, Risk.NUMERICS, Risk.MEMORY),
)(compiled)


_SPEC = CallSpec(
    noun="call",
    what="torch.compile",
    names={"torch.compile": "torch.compile"},
    defaults={"dynamic": None},
    alike="compile",
)


@line_fix(
    what="compile once for every size",
    title="torch.compile dynamic=True",
    advice="torch.compile(..., dynamic=True)",
    risks=(Risk.NUMERICS,),
)
def compile_dynamic(program: Program, line: int) -> Sequence[Edit]:
    """Sizes become variables in the compiled code, so a new length is not recompiled. Each call is
    a little slower than one compiled for its exact size."""
    # ``dynamic=True`` for the ``torch.compile`` at ``line``.
    edits = each_changed(_SPEC, program, call_at(program, line, _SPEC), {"dynamic": True})
    if not edits:
        raise PatchRefusedError("it is already compiled for every size")
    return list(edits.values())


_MODE = '"reduce-overhead"'
_OWN = ("make_graphed_callables", "CUDAGraph", "graph_pool_handle")
_WRAPPED = ("DistributedDataParallel", "DDP", "FullyShardedDataParallel", "FSDP", "fully_shard")
_SIZES = ("recompiles", "cudnn-benchmark", "padding-waste")
"""Findings that sizes differ from step to step."""
_BESIDE = ("dynamic", "backend", "options", "disable", None)
"""Arguments of a compilation that do not go with a mode, or that say sizes change."""
_KEEPS = ("append", "extend", "add", "update", "put", "appendleft")


def graphed(why_not: str, program: Program, _: int) -> Sequence[Edit]:
    """``mode="reduce-overhead"`` for the model that is trained, compiled already or not; refused
    with ``why_not`` where the run says so."""
    if why_not:
        raise PatchRefusedError(why_not)
    refuse_mentioned(program, "already records CUDA graphs", *_OWN)
    spreads = "spreads the model over several GPUs, which CUDA graphs do not support"
    refuse_mentioned(program, spreads, *_WRAPPED)
    loop = step_loop(program)
    compiled = [call for call in program.calls("compile") if not _is_another(program, call.func)]
    if not compiled:
        for node in program.nodes:
            is_named = isinstance(node, ast.Attribute) and node.attr in _COMPILED[:3]
            if isinstance(node, ast.Attribute) and is_named and not _is_another(program, node):
                raise PatchRefusedError(f"line {node.lineno} already compiles something")
        model = model_name(program, loop)
        _refuse_kept(program, loop, model)
        return (insert_before_training(program, model, f"{model}.compile(mode={_MODE})"),)
    if len(compiled) > 1:
        raise PatchRefusedError(f"{len(compiled)} lines of the file compile something")
    _refuse_kept(program, loop, _compiled_name(program, compiled[0]))
    return (_with_mode(program, compiled[0]),)


def _is_another(program: Program, function: ast.expr) -> bool:
    """Whether ``function`` is of a module other than torch, such as ``re.compile``."""
    name = qualified_name(program, function)
    return name is not None and not name.startswith("torch.")


def _compiled_name(program: Program, call: ast.Call) -> str:
    """The name of what ``call`` compiles, in place or as a new object; refused where it is not
    certain."""
    above = program.parents[call]
    target = above.targets[0] if isinstance(above, ast.Assign) else None
    if isinstance(target, ast.Name) and assigned_value(program, target) is call:
        return target.id
    owner = receiver(call) if isinstance(above, ast.Expr) else None
    if isinstance(owner, ast.Name) and owner.id not in program.imported:
        return owner.id
    raise PatchRefusedError(f"line {call.lineno} may not compile the whole model")


def _with_mode(program: Program, call: ast.Call) -> Edit:
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    for name in (name for name in _BESIDE if name in keywords):
        raise PatchRefusedError(
            f"line {call.lineno} compiles with {name or '**'}, which cannot be combined with mode"
        )
    mode = keywords.get("mode")
    if mode is None or (isinstance(mode, ast.Constant) and mode.value is None):
        at = program.span(mode if mode is not None else call)
        return ReplaceLiteral(at, _MODE) if mode is not None else AddKeyword(at, "mode", _MODE)
    if not isinstance(mode, ast.Constant):
        raise PatchRefusedError(f"line {call.lineno} computes the mode: {ast.unparse(mode)}")
    if mode.value != "default":
        raise PatchRefusedError(f"line {call.lineno} compiles with mode={mode.value!r} already")
    return ReplaceLiteral(program.span(mode), _MODE)


def _refuse_kept(program: Program, loop: Loop, model: str) -> None:
    """Refuse unless ``loop`` calls ``model`` once, and keeps nothing of what that gives: the next
    run of the graph would write over it."""
    calls = [call for call in program.calls(model) if loop in program.ancestors(call)]
    if len(calls) != 1 or not isinstance(calls[0].func, ast.Name):
        raise PatchRefusedError(f"{model} is called at {len(calls)} places of the loop")
    if any(isinstance(n, Loop) and n is not loop for n in _within(program, calls[0], loop)):
        raise PatchRefusedError(f"line {calls[0].lineno} calls {model} several times a step")
    above = program.parents[calls[0]]
    targets = above.targets if isinstance(above, ast.Assign) else []
    names = {node.id for part in targets for node in ast.walk(part) if isinstance(node, ast.Name)}
    for use in (load for name in sorted(names) for load in program.loads(name)):
        around_it = _within(program, use, loop)
        if around_it and use.lineno <= calls[0].lineno:
            raise PatchRefusedError(f"line {use.lineno} uses {use.id} of the step before")
        for around in around_it:
            method = around.func if isinstance(around, ast.Call) else None
            if isinstance(method, ast.Attribute) and method.attr in _KEEPS:
                raise PatchRefusedError(f"line {use.lineno} keeps {use.id} for later steps")


def _within(program: Program, node: ast.AST, loop: Loop) -> list[ast.AST]:
    """The nodes around ``node`` up to ``loop``; none where it is not in there."""
    above = list(program.ancestors(node))
    return above[: above.index(loop)] if loop in above else []


@fix(
    what="compile the model and launch its kernels with CUDA graphs",
    risks=(Risk.START, Risk.NUMERICS, Risk.MEMORY),
)
def compile_graphs(facts: Facts) -> LineChange | None:
    """torch.compile records the kernels of a step once and then launches them all at once, which
    costs the host almost nothing. Sizes must stay the same: each new size is compiled and recorded
    again. CUDA graphs keep their own memory, and each step overwrites the outputs of the step
    before."""
    script = script_with_finding(facts, "launch-bound")
    if script is None:
        return None
    why_not = ""
    if has_gpu(facts) is False:
        why_not = "there is no GPU, so there are no launches to record"
    elif has_finding(facts, *_SIZES):
        why_not = "sizes differ from step to step, and each would need its own graph"
    advice = f"model.compile(mode={_MODE}) before the training loop"
    plan = partial(graphed, why_not)
    return LineChange("CUDA graphs", script.file, script.line, plan, advice)
