"""The whole model, compiled, replayed as CUDA graphs, or in another layout of memory; layers that
are written out, in one operator each; activations that are kept."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import partial

from perftui.facts.cpu.machine import has_gpu
from perftui.facts.fact import Facts
from perftui.facts.source.source_calls import matching_line
from perftui.fixes.fix import LineChange, NamedLine, fix, has_finding, line_fix, script_with_finding
from perftui.fixes.option import Risk
from perftui.fixes.source.calls import CallSpec, call_at, each_changed
from perftui.fixes.source.edits import (
    AddKeyword,
    Edit,
    ReplaceExpression,
    ReplaceLiteral,
    edits_at,
    insert_before_training,
    remove,
)
from perftui.script.layers import Attention, OneOperator, activation, attention_of, layer_norm
from perftui.script.names import module_name, qualified_name, refuse_unbound, spelling
from perftui.script.program import (
    Loop,
    PatchRefusedError,
    Program,
    assigned_value,
    called_name,
    called_names,
    receiver,
)
from perftui.script.templates import LocalValues
from perftui.script.training import model_name, refuse_mentioned, statement_at, step_loop

_COMPILED = ("compile", "script", "trace", "make_graphed_callables")


@line_fix(
    what="compile the model",
    at=script_with_finding,
    title="model compiled",
    advice="model.compile() before the training loop",
    risks=(Risk.START, Risk.NUMERICS, Risk.MEMORY),
)
def compile_fix(program: Program, _: int) -> Sequence[Edit]:
    """torch.compile fuses small operators and launches fewer kernels. On the CPU it needs a C++
    compiler. Compiling takes seconds to minutes at the start, and again for each new size."""
    # In place, so that names of its state stay.
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
    return LineChange("CUDA graphs", script.file, script.line, partial(graphed, why_not), advice)


_FUSED = "torch.nn.functional.scaled_dot_product_attention"


@line_fix(
    what="compute attention in one operator",
    title="attention in one operator",
    advice=f"{_FUSED}(q, k, v)",
    risks=(Risk.NUMERICS, Risk.DROPOUT),
)
def attention_fused(program: Program, line: int) -> Sequence[Edit]:
    """scaled_dot_product_attention computes both matrix products, the scale, the mask and the
    softmax, and does not store the scores of all pairs. The formula is the same; results differ in
    the last digits. Attention dropout drops different values. A fully masked row gives zeros or
    NaN, depending on the version of torch."""
    # The attention in the function around ``line`` as one call.
    statement = statement_at(program, line)
    around = (statement, *program.ancestors(statement))
    function = next((node for node in around if isinstance(node, ast.FunctionDef)), None)
    if function is None:
        raise PatchRefusedError(f"line {line} is in no function")
    if any(kw.arg == "create_graph" for call in program.calls() for kw in call.keywords):
        raise PatchRefusedError("create_graph: the fused operator has no second derivative")
    parts = attention_of(program, function)
    # A view needs the memory order that the product has.
    above = program.parents[parts.product]
    uses: list[ast.AST] = [above]
    if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name):
        uses += [program.parents[use] for use in program.loads(above.targets[0].id)]
    for use in uses:
        if isinstance(use, ast.Attribute) and use.attr in ("view", "view_as"):
            raise PatchRefusedError(f"line {use.lineno} takes a view of the result")
    if isinstance(above, ast.Call) and called_name(above) == "as_strided":
        raise PatchRefusedError(f"line {above.lineno} takes a view of the result")
    text = _call(program, parts)
    refuse_unbound(program, program.statement(parts.product), text.partition("(")[0], before=True)
    removed = [remove(program, node) for node in parts.statements]
    return [*removed, ReplaceExpression(program.span(parts.product), text)]


def _call(program: Program, parts: Attention) -> str:
    args = [ast.unparse(node) for node in (parts.query, parts.key, parts.value)]
    if parts.causal:
        args.append("is_causal=True")
    elif parts.mask is not None:
        inverse = spelling(program, "torch.logical_not")
        args.append(f"attn_mask={inverse}({ast.unparse(parts.mask)})")
    if parts.dropout:
        args.append(f"dropout_p={parts.dropout}")
    if parts.scale is not None:
        args.append(f"scale={parts.scale}")
    return f"{spelling(program, _FUSED)}({', '.join(args)})"


_FUNCTIONS = "torch.nn.functional"

_IN_THEM = frozenset({"tanh", "erf", "exp", "sigmoid", "mean"})
"""Functions of which every known activation and norm calls one."""


@line_fix(
    what="compute hand-written activations and norms with one operator each",
    title="activations and norms in one operator each",
    advice=f"{_FUNCTIONS}.gelu, layer_norm and the like",
    risks=(Risk.NUMERICS,),
)
def elementwise_fused(program: Program, _: int) -> Sequence[Edit]:
    """torch's own operators compute the GELU, SiLU and layer normalisation that the script writes
    out by hand, in one pass through memory. The formula is the same; results differ in the last
    digits."""

    # Each activation and each layer norm that the functions of the file write out, as a call.
    def edits_of(match: tuple[ast.BinOp, OneOperator, LocalValues]) -> Iterator[Edit]:
        node, fused, local = match
        taken = local.used()
        if taken:
            local.refuse_set(fused.tensor, taken[0])
        removed = [remove(program, node) for node in taken]
        text = f"{spelling(program, _FUNCTIONS)}.{fused.text}"
        yield from removed
        yield ReplaceExpression(program.span(node), text)

    functions = [node for node in program.statements() if isinstance(node, ast.FunctionDef)]
    # The other functions are not worth the time.
    likely = (f for f in functions if not _IN_THEM.isdisjoint(called_names(f)))
    fused = (match for f in likely for match in _outermost(program, f))
    return edits_at(fused, edits_of, "no line is certainly an activation or a layer norm")


def _outermost(
    program: Program, function: ast.FunctionDef
) -> Iterator[tuple[ast.BinOp, OneOperator, LocalValues]]:
    """Sums and products of ``function`` that one operator computes, those within one left out."""
    seen: set[ast.AST] = set()
    for node in ast.walk(function):
        if node in seen or not isinstance(node, ast.BinOp) or program.scope(node) is not function:
            continue
        for read in (layer_norm, activation):
            local = LocalValues(program, function, node)
            if layer := read(program, local, node):
                seen |= set(ast.walk(node))
                yield node, layer, local
                break


_CHECKPOINT = "torch.utils.checkpoint.checkpoint"
_OF_CHECKPOINT = (
    *("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop"),
    "preserve_rng_state",
)
"""Arguments of ``checkpoint`` itself; all others are handed to the function."""


def _direct(call: ast.Call) -> str:
    function, *arguments = call.args
    if isinstance(function, ast.Starred):
        raise PatchRefusedError(f"line {call.lineno} does not say what it calls")
    keywords = [keyword for keyword in call.keywords if keyword.arg not in _OF_CHECKPOINT]
    return ast.unparse(ast.Call(function, arguments, keywords))


def _checkpoint(facts: Facts, rule: str) -> NamedLine | None:
    match = matching_line(facts, r"\bcheckpoint\(") if has_finding(facts, rule) else None
    return NamedLine(match.file, match.line) if match else None


@line_fix(
    what="keep activations instead of computing them twice",
    at=_checkpoint,
    title="activations kept",
    advice="call the layers without checkpoint()",
    risks=(Risk.MEMORY,),
)
def recompute_off(program: Program, _: int) -> Sequence[Edit]:
    """Layers are called directly, and the activations that backward needs are kept. Results are the
    same; memory grows by the activations of all these layers."""
    # Each ``checkpoint(function, x)`` of the file as ``function(x)``.
    calls = [call for call in program.calls() if qualified_name(program, call.func) == _CHECKPOINT]
    if not calls:
        raise PatchRefusedError("no line certainly calls torch's checkpoint")
    for call in calls:
        last = call.end_lineno or call.lineno
        if last > call.lineno and program.comments(call.lineno, last):
            raise PatchRefusedError(f"there is a comment inside the call at line {call.lineno}")
    return [ReplaceExpression(program.span(call), _direct(call)) for call in calls]
