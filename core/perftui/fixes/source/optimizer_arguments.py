"""Changes how an optimizer of PyTorch computes its step."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from perftui.fixes.model import Patch
from perftui.fixes.source.calls import CallSpec
from perftui.fixes.source.edits import Edit, Literal
from perftui.fixes.source.names import qualified_name
from perftui.fixes.source.patching import call_patch, each
from perftui.fixes.source.program import Program

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
"""Of these only one may be true."""


def optimizer_spec(argument: str) -> CallSpec:
    """Calls of the optimizers that have ``argument``: ``fused`` or ``foreach``."""
    names = {
        f"torch.optim.{module}{name}": f"torch.optim.{name}"
        for name in HAVE[argument]
        for module in ("", f"{name.lower()}.")
    }
    return CallSpec(
        noun="optimizer",
        what=f"an optimizer of torch that has {argument}",
        names=names,
        follows=False,
        conflicts={argument: tuple(name for name in _OTHERS if name != argument)},
    )


def optimizer_arguments(
    path: Path, line: int, argument: str, seen: Mapping[str, Literal] | None = None
) -> Patch:
    """Patch the call at ``line`` of ``path`` so that it makes its optimizer with ``argument``,
    ``fused`` or ``foreach``, True.

    ``seen`` is what the optimizer was made with in a run, where that is known.

    Raises:
        PatchRefusedError: the change is not certain, or nothing would change.
    """
    spec = optimizer_spec(argument)

    def planned(
        program: Program, call: ast.Call, arguments: Mapping[str, Literal]
    ) -> Mapping[str, Edit]:
        name = spec.names[qualified_name(program, call.func) or ""].rsplit(".", 1)[-1]
        position = {"foreach": _POSITIONS[name]} if name in _POSITIONS else {}
        return each(replace(spec, positions=position))(program, call, arguments)

    return call_patch(path, line, spec, {argument: True}, seen, planned)
