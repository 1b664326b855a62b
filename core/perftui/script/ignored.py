"""Which share of the positions a loss over classes leaves out, where the file shows it: by a mask
that is drawn with a share written there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from perftui.script.evaluation import is_without_gradients
from perftui.script.names import bindings_of, qualified_name, readers_of, values_given
from perftui.script.program import (
    PatchRefusedError,
    Program,
    called_name,
    keyword,
    receiver,
    value_given,
)
from perftui.script.templates import Templates
from perftui.script.uses import kind_of
from perftui.script.values import Wanted

_DEEPEST = 12
"""Most names, views and functions between a value and what makes it."""

_SAME = frozenset(
    {"view", "reshape", "flatten", "long", "contiguous", "to", "clone", "detach", "squeeze", "cuda"}
    | {"float", "bool", "unsqueeze", "type_as", "expand", "expand_as", "log_softmax", "transpose"}
)
"""Functions and methods that keep the shares of values, or the positions of logits."""

_LOSSES = frozenset({"torch.nn.CrossEntropyLoss", "torch.nn.NLLLoss"})
_DRAWS = frozenset({"rand", "rand_like", "uniform_"})
"""Functions that draw evenly from 0 to 1."""

_KEPT = (
    *("$_.masked_fill(~$kept, $ignored)", "torch.where($kept, $_, $ignored)"),
    *("torch.where(~$kept, $ignored, $_)", "$_[~$kept] = $ignored"),
    "torch.where($kept, $_, torch.full_like($_, $ignored))",
)
_PRODUCTS = (
    *("$head($hidden)", "$hidden @ $weight", "$hidden @ $weight + $bias"),
    *(f"torch.nn.functional.linear($hidden, {rest})" for rest in ("$weight", "$weight, $bias")),
)
"""Whatever else is given may mix positions, as the edges of a graph do."""


class Ignored(NamedTuple):
    """Positions whose logits are computed for nothing."""

    share: float
    """The least share of them."""
    line: int
    """Where their logits are computed."""
    instead: str
    """What to do there."""


@lru_cache(16)
def ignored_by_loss(program: Program) -> tuple[Ignored, ...]:
    """What the only loss over classes of the file leaves out, evaluations aside; empty where that
    is not known."""
    losses = [
        call
        for call in program.calls()
        if called_name(call) in ("cross_entropy", "nll_loss")
        or kind_of(program, call.func) in _LOSSES
        if not any(is_without_gradients(program, above) for above in program.ancestors(call))
    ]
    found = _ignored(program, losses[0]) if len(losses) == 1 else None
    return (found,) if found else ()


def _ignored(program: Program, loss: ast.Call) -> Ignored | None:
    given = keyword(loss, "ignore_index")
    mask = _kept(program, loss.args[1:2], ast.unparse(given) if given else "-100")
    *_, logits = _steps(program, loss.args[0]) if len(loss.args) > 1 else [None]
    if mask is None and isinstance(logits, ast.Subscript):
        mask, logits = logits.slice, logits.value
    most = _most(program, mask) if mask is not None else 1.0
    product, hidden = (most < 1 and logits and _head(program, logits)) or (None, "")
    if mask is None or product is None:
        return None
    is_here = program.function(mask) is program.function(product)
    chosen = f"{hidden}[{ast.unparse(mask) if is_here else 'mask'}]"
    of_hidden = rf"(?<![\w.]){re.escape(hidden)}(?!\w)"
    text = re.sub(of_hidden, lambda _: chosen, ast.unparse(product), count=1)
    instead = f"select the positions before the projection, {text}, and of the targets the same"
    return Ignored(1 - most, product.lineno, instead)


def _steps(program: Program, node: ast.expr | None) -> Iterator[ast.expr]:
    """``node``, and what gives it its values, step by step: names, views, and functions of the file
    are followed."""
    for _ in range(_DEEPEST):
        if node is None:
            return
        yield node
        match node:
            case ast.Call(func, args) if called_name(node) in _SAME:
                node = args[0] if qualified_name(program, func) and args else receiver(node)
            case ast.Subscript(value, ast.Slice() | ast.Tuple()):
                node = value
            case ast.Name():
                bound = bindings_of(program, node)
                node = _given(program, bound[0]) if len(bound) == 1 else None
            case _:
                return


def _given(program: Program, target: ast.AST) -> ast.expr | None:
    """What ``target`` is given: of several results of a function of the file the one for it."""
    if isinstance(target, ast.arg):
        values = values_given(program, target)
        return values[0] if len(values) == 1 else None
    above = program.parents[target]
    whole = value_given(program, above) if isinstance(above, ast.Tuple) else None
    if not isinstance(whole, ast.Call) or not isinstance(above, ast.Tuple):
        return value_given(program, target)
    parts = getattr(_returned(program, whole), "elts", ())
    return dict(zip(above.elts, parts, strict=False)).get(target, whole)  # type: ignore[call-overload, no-any-return] # a part


def _returned(program: Program, call: ast.Call) -> ast.expr | None:
    """What the only function of the file that ``call`` may call returns, at its only end."""
    functions = program.own_functions(call)
    parts = ast.walk(functions[0]) if len(functions) == 1 else ()
    ends = [node for node in parts if isinstance(node, ast.Return)]
    return ends[0].value if len(ends) == 1 else None


def _kept(program: Program, targets: list[ast.expr], ignored: str) -> ast.expr | None:
    """A mask that is true for all ``targets`` that are not ``ignored``."""
    where = {"ignored": lambda node: ast.unparse(node) == ignored}
    for node in _steps(program, next(iter(targets), None)):
        reads = readers_of(program, node) if isinstance(node, ast.Name) else ()
        for code in (node, *map(program.statement, reads)):
            if match := Templates(program, where=where).match(code, *_KEPT):
                return match["kept"]
    return None


def _most(program: Program, mask: ast.expr) -> float:
    """The most share of ``mask`` that is true."""
    *_, made = _steps(program, mask)
    templates = Templates(program, where={"drawn": lambda node: _is_drawn(program, node)})
    if match := templates.match(made, "$one & $other"):
        return min(_most(program, match["one"]), _most(program, match["other"]))
    if match := templates.match(made, "torch.bernoulli($chances)"):
        # What is then set in it may only be less.
        *_, made = _steps(program, match["chances"])
    match = templates.match(made, "$drawn < $share", "$drawn <= $share", "torch.full($_, $share)")
    with suppress(PatchRefusedError):
        number = Wanted(program, "share", float).followed(match["share"]).value if match else None
        return number if isinstance(number, float) and 0 <= number <= 1 else 1
    return 1


def _is_drawn(program: Program, node: ast.expr) -> bool:
    *_, made = _steps(program, node)
    return isinstance(made, ast.Call) and called_name(made) in _DRAWS


def _head(program: Program, logits: ast.expr) -> tuple[ast.expr, str] | None:
    """What makes ``logits`` out of what another module has computed, and the text of that."""
    where = {"hidden": lambda node: _is_computed(program, node)}
    for _ in range(_DEEPEST):
        *_, made = _steps(program, logits)
        if match := Templates(program, where=where).match(made, *_PRODUCTS):
            return made, ast.unparse(match["hidden"])
        inner = _returned(program, made) if isinstance(made, ast.Call) else None
        if inner is None:
            break
        logits = inner
    return None


def _is_computed(program: Program, hidden: ast.expr, depth: int = _DEEPEST) -> bool:
    """Whether a module computes ``hidden``, directly or in functions of the file."""
    *_, made = _steps(program, hidden)
    bound = bindings_of(program, made) if isinstance(made, ast.Name) else []
    calls = [value_given(program, target) for target in bound] or [made]
    for call in calls:
        if not isinstance(call, ast.Call):
            continue
        kind, inner = kind_of(program, call.func), _returned(program, call)
        if kind in program.classes or kind.startswith("torch.nn."):
            return True
        if inner is not None and depth and _is_computed(program, inner, depth - 1):
            return True
    return False
