"""Optimizers and averages of weights that update all parameters in one operator, or in a few."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from perftui.diagnosis.symptoms.operators.loops import is_of_torch, single_tensor_optimizer
from perftui.facts.fact import Facts
from perftui.facts.settings import OptimizerSettings
from perftui.fixes.fix import CallChange, finding_line_or_script, fix, line_fix
from perftui.fixes.option import Risk
from perftui.fixes.source.calls import CallSpec, each_changed
from perftui.fixes.source.edits import Edit, ReplaceStatement, edits_at, replace_statement
from perftui.script.names import module_name, qualified_name
from perftui.script.parameter_loops import (
    Average,
    Destination,
    ParameterLoop,
    average_of,
    goes_over_parameters,
    refuse_read_later,
    taken_apart,
)
from perftui.script.program import (
    Literal,
    PatchRefusedError,
    Program,
    called_name,
    free_name,
    keyword,
)
from perftui.script.values import is_number

HAVE: Mapping[str, tuple[str, ...]] = {
    "fused": ("Adagrad", "Adam", "AdamW", "SGD"),
    "foreach": (
        *("ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam"),
        *("RAdam", "RMSprop", "Rprop", "SGD"),
    ),
}
"""By argument, the classes of ``torch.optim`` that have it (torch 2.4 to 2.13)."""

_POSITIONS = {"ASGD": 6, "Adadelta": 5, "Adagrad": 6, "Adamax": 5, "RMSprop": 8}
"""Where ``foreach`` may be given by position; everywhere else it is a keyword, as is ``fused``."""


_OTHERS = ("foreach", "fused", "differentiable")
"""Arguments of which only one may be true."""


def optimizer_spec(argument: str) -> CallSpec:
    """Calls of the optimizers that have ``argument``: ``fused`` or ``foreach``."""
    names = {
        f"torch.optim.{module}{name}": f"torch.optim.{name}"
        for name in HAVE[argument]
        for module in ("", f"{name.lower()}.")
    }
    return CallSpec(
        noun="optimizer",
        what=f"a torch optimizer that supports {argument}",
        names=names,
        follows=False,
        conflicts={argument: tuple(name for name in _OTHERS if name != argument)},
        plan=_optimizer_planned,
    )


def is_sparse(call: ast.Call) -> bool:
    """Whether ``call`` makes an embedding whose gradients may be sparse, which torch has no fused
    update for."""
    value = keyword(call, "sparse")
    is_off = isinstance(value, ast.Constant) and not value.value
    return value is not None and not is_off and "Embedding" in called_name(call)


def _optimizer_planned(
    spec: CallSpec, program: Program, call: ast.Call, arguments: Mapping[str, Literal]
) -> Mapping[str, Edit]:
    (argument,) = arguments
    sparse = next(filter(is_sparse, program.calls()), None)
    if sparse is not None and argument == "fused":
        raise PatchRefusedError(
            f"gradients are sparse at line {sparse.lineno}: no optimizer fuses them"
        )
    name = spec.names[qualified_name(program, call.func) or ""].rsplit(".", 1)[-1]
    positions = {"foreach": _POSITIONS[name]} if name in _POSITIONS else {}
    return each_changed(replace(spec, positions=positions), program, call, arguments)


@fix(what="update all parameters in one operator", risks=(Risk.NUMERICS,))
def optimizer_fused(facts: Facts) -> CallChange | None:
    """One fused operator computes the optimizer's step instead of several operators for each
    parameter. The formula is the same; results may differ in the last digits, because sums are
    rounded at other points. Parameters and state must be floating point."""
    optimizer = single_tensor_optimizer(facts)
    if optimizer is None:
        return None
    has_it = optimizer.class_name in HAVE["fused"]
    return _with(optimizer, "fused", "" if has_it else f"torch has no fused {optimizer.class_name}")


@fix(what="update all parameters in a few operators", risks=(Risk.NUMERICS, Risk.MEMORY))
def optimizer_foreach(facts: Facts) -> CallChange | None:
    """torch._foreach_ operators compute the optimizer's step on lists of all parameters, for
    optimizers without a fused step in torch. The formula is the same; results may differ in the
    last digits. Intermediate results take memory for all parameters at once."""
    # ``foreach`` for optimizers that torch has no fused form of.
    optimizer = single_tensor_optimizer(facts)
    if optimizer is None or optimizer.class_name in HAVE["fused"]:
        return None
    has_it = is_of_torch(optimizer) and optimizer.class_name in HAVE["foreach"]
    why_not = "" if has_it else f"{optimizer.class_name} does not take it"
    return _with(optimizer, "foreach", why_not)


def _with(optimizer: OptimizerSettings, argument: str, why_not: str) -> CallChange:
    where = f"At {optimizer.source}: " if optimizer.source else ""
    return CallChange(
        target="optimizer",
        arguments={argument: True},
        title=f"{optimizer.class_name} {argument}=True",
        file=optimizer.file,
        line=optimizer.line,
        spec=optimizer_spec(argument),
        advice=f"{where}{optimizer.class_name}(..., {argument}=True)",
        why_not=why_not,
    )


@line_fix(
    what="average weights with operators on lists of tensors instead of one parameter at a time",
    at=finding_line_or_script,
    title="weight averaging with lists",
    advice="torch._foreach_lerp_(averages, weights, 1 - decay)",
    is_one_of_several=True,
    risks=(Risk.NUMERICS, Risk.MEMORY),
)
def foreach_average(program: Program, _: int) -> Sequence[Edit]:
    """The tensors of all parameters are put into lists, and torch._foreach_ operators multiply and
    add them in a few calls. The formula is the same; results may differ in the last digits. The
    lists live until the next update: if it creates new tensors, the old ones take memory until
    then."""

    # Each loop of the file that averages weights parameter by parameter, by ``_foreach``.
    def edits_of(loop: ast.For) -> Iterator[Edit]:
        is_over_all = goes_over_parameters(program, loop.iter)
        parts = taken_apart(program, loop) if is_over_all else None
        average = average_of(parts) if parts else None
        if parts is not None and average is not None:
            yield _edit_of(parts, average)

    loops = (node for node in program.statements() if isinstance(node, ast.For))
    return edits_at(loops, edits_of, "no loop certainly averages weights one by one")


def _edit_of(parts: ParameterLoop, average: Average) -> ReplaceStatement:
    program, loop = parts.program, parts.loop
    for factor in average.numbers:
        if not is_number(program, parts.original(factor)):
            text = ast.unparse(factor)
            raise PatchRefusedError(f"line {loop.lineno}: {text} may not be a number")
    factors = [average.weight, *([average.decay] if average.decay else [])]
    called = [node for node in factors if any(isinstance(n, ast.Call) for n in ast.walk(node))]
    if not all(is_number(program, parts.original(node)) for node in called):
        raise PatchRefusedError(f"line {loop.lineno} calls something for each parameter")
    if average.kept is Destination.IN_PLACE:
        _refuse_twice(program, average.old, loop)
    refuse_read_later(parts)
    return replace_statement(program, loop, "\n".join(_lines(parts, average)))


def _lines(parts: ParameterLoop, average: Average) -> list[str]:
    program = parts.program
    torch = module_name(program, "torch")
    rows, olds, news = (_fresh(program, name) for name in ("rows", "averages", "weights"))
    decay = ast.unparse(average.decay) if average.decay else ""
    weight = ast.unparse(average.weight)
    added = f"{torch}._foreach_add_({olds}, {news}, alpha={weight})"
    if average.kept is Destination.IN_PLACE:
        head = [
            f"{rows} = {parts.rows(average.old, average.new)}",
            f"{olds}, {news} = zip(*{rows})",
        ]
        if average.decay is None:
            return [*head, f"{torch}._foreach_lerp_({olds}, {news}, {weight})"]
        return [*head, f"{torch}._foreach_mul_({olds}, {decay})", added]
    owner = _owner(average)
    is_item = isinstance(owner, ast.Subscript)
    key = owner.slice if isinstance(owner, ast.Subscript) else owner
    keys = _fresh(program, "names" if is_item else "owners")
    lines = [
        f"{rows} = {parts.rows(key, average.old, average.new)}",
        f"{keys}, {olds}, {news} = zip(*{rows})",
        f"{olds} = {torch}._foreach_mul({olds}, {decay})",
        added,
    ]
    if isinstance(owner, ast.Subscript):
        return [*lines, f"{ast.unparse(owner.value)}.update(zip({keys}, {olds}))"]
    target, value = _fresh(program, "owner"), _fresh(program, "average")
    loop = f"for {target}, {value} in zip({keys}, {olds}):\n    {target}.data = {value}"
    return [*lines, loop]


def _owner(average: Average) -> ast.expr:
    """What gets the average: the tensor of ``tensor.data``, or the item of a dict."""
    old: ast.expr = average.old
    while isinstance(old, ast.Call) and isinstance(old.func, ast.Attribute):
        old = old.func.value
    is_data = isinstance(old, ast.Attribute) and old.attr == "data"
    return old.value if is_data and isinstance(old, ast.Attribute) else old


def _refuse_twice(program: Program, old: ast.expr, loop: ast.For) -> None:
    """Refuse unless no tensor can be in the list of averages twice: a dict may hold one tensor by
    two names, as those of tied weights do."""
    node = old
    while not isinstance(node, (ast.Subscript, ast.Name)):
        node = node.func if isinstance(node, ast.Call) else node.value  # type: ignore[attr-defined] # a chain of them
    if isinstance(node, ast.Subscript) and not goes_over_parameters(program, node.value):
        text = ast.unparse(node.value)
        raise PatchRefusedError(f"line {loop.lineno}: {text} may hold one tensor twice")


def _fresh(program: Program, name: str) -> str:
    return free_name(program, name, name, f"all_{name}", f"{name}_of_all")
