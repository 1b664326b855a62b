"""Which calls make an optimizer of PyTorch, and which edits change how it computes its step."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

from perftui.fixes.source.calls import CallSpec, each_changed
from perftui.fixes.source.edits import Edit
from perftui.script.names import qualified_name
from perftui.script.program import Literal, PatchRefusedError, Program, called_name

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
        plan=_planned,
    )


def is_sparse(call: ast.Call) -> bool:
    """Whether ``call`` makes an embedding whose gradients may be sparse, which torch has no fused
    update for."""
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "sparse"), None)
    is_off = isinstance(given, ast.Constant) and not given.value
    return given is not None and not is_off and "Embedding" in called_name(call)


def _planned(
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
