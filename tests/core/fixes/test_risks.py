"""A fix names all risks that its changes name, and no other; ``line_fix`` names them once."""

from __future__ import annotations

import ast
import inspect
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from perftui.fixes.catalogue import FIXES
from perftui.fixes.fix import Fix, line_fix
from perftui.fixes.model import Risk

BY_MODULE: dict[str, set[str]] = defaultdict(set)
for _fix in FIXES:
    if _fix.change.__module__ != line_fix.__module__:
        BY_MODULE[_fix.change.__module__] |= {risk.name for risk in _fix.risks}


@pytest.mark.parametrize("module", BY_MODULE)
def test_a_fix_names_the_risks_that_its_changes_name(module: str) -> None:
    source = Path(inspect.getfile(sys.modules[module])).read_text()
    assert named(ast.parse(source)) == BY_MODULE[module]


def named(tree: ast.AST) -> set[str]:
    """Members of ``Risk`` that a module uses outside its rows of the catalogue."""
    called = tree.func if isinstance(tree, ast.Call) else None
    if isinstance(called, ast.Name) and called.id in (Fix.__name__, line_fix.__name__):
        return set()
    found = set().union(*map(named, ast.iter_child_nodes(tree)))
    is_risk = isinstance(tree, ast.Attribute) and isinstance(tree.value, ast.Name)
    if is_risk and tree.value.id == Risk.__name__:
        found.add(tree.attr)
    return found


def test_every_risk_is_that_of_a_fix() -> None:
    assert {risk for fix in FIXES for risk in fix.risks} == set(Risk)
