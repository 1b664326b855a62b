"""Forms of code over several lines that no single call shows, for the table of slow calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import TypeGuard

from perftui.script.names import bindings_of, later_reads, qualified_name
from perftui.script.program import (
    PatchRefusedError,
    Program,
    assigned_value,
    called_name,
    keyword,
    root_of,
    value_given,
    variables,
)
from perftui.script.templates import assigned_name, buffers, own_attribute, own_layer
from perftui.script.uses import Use
from perftui.script.values import Wanted


@lru_cache(64)
def forms_at(program: Program, line: int) -> tuple[Use, ...]:
    """The forms that ``line`` belongs to, each as a use with a name of its own."""
    searches = (
        _enlarged,
        _made,
        _gathered,
        _paired,
        _positions,
        _banded,
        _coordinates,
        _columns,
        _blocks,
    )
    return tuple(use for search in searches for use in search(program, line))


def _enlarged(program: Program, line: int) -> Iterator[Use]:
    """``enlarged.head``: a 1 x 1 convolution to fewer channels, of nothing but what is interpolated
    just before to the size of the function's only argument; at the line of either."""
    for call in program.calls("interpolate"):
        above, function = program.parents[call], program.function(call)
        size = root_of(keyword(call, "size") or (*call.args, call, call)[1])
        if isinstance(above, ast.Assign) and isinstance(to := above.targets[0], ast.Name):
            reads = list(later_reads(program, above, to.id))
            above = program.parents[reads[0]] if len(reads) == 1 else above
        is_torch = qualified_name(program, call.func) == "torch.nn.functional.interpolate"
        # Features of a model's only input are hardly ever larger.
        given = [arg.arg for arg in function.args.args] if function else []
        is_up = given[1:] == [getattr(size, "id", "")]
        lines = (call.lineno, getattr(above, "lineno", 0))
        if is_torch and is_up and line in lines and _narrows(above, program):
            yield Use("enlarged.head", above.func, call.args[0], above.func, program)
            return


def _narrows(call: ast.AST, program: Program) -> TypeGuard[ast.Call]:
    """Whether ``call`` is of a 1 x 1 convolution to fewer channels."""
    head = call.func if isinstance(call, ast.Call) and len(call.args) == 1 else None
    stores = program.attributes(head.attr, ast.Store) if isinstance(head, ast.Attribute) else []
    made = value_given(program, stores[0]) if len(stores) == 1 else None
    if not isinstance(made, ast.Call) or qualified_name(program, made.func) != "torch.nn.Conv2d":
        return False
    others = {word.arg for word in made.keywords} - {"bias", "kernel_size"}
    parts = [*made.args, *filter(None, [keyword(made, "kernel_size")])]
    with suppress(PatchRefusedError):
        numbers = [Wanted(program, "channels", int).followed(part) for part in parts]
        wide, few, kernel = (getattr(number, "value", 0) for number in numbers)
        return kernel == 1 and few < wide and not others
    return False


def _made(program: Program, line: int) -> Iterator[Use]:
    """``made.module``: the call in a function that makes the object in whose ``__init__`` the line
    is; objects that are parts of others are made by the call for the whole."""
    makes = (one for one in program.functions_at(line) if one.name == "__init__")
    function = next(makes, None)
    calls = program.callers.get(function, []) if function else []
    inside = [(call, around) for call in calls if (around := program.function(call))]
    for call, around in inside:
        if around.name != "__init__":
            yield Use("made.module", call, None, next(iter(call.args), None), program)
            return
    if inside and inside[0][1] is not function:
        yield from _made(program, inside[0][0].lineno)


def _gathered(program: Program, line: int) -> Iterator[Use]:
    """``gathered.linear``: a linear layer whose input puts features together that were gathered by
    an index, as those of both ends of each edge."""
    for call in program.calls():
        given = _value(program, call.args[0]) if call.args else None
        if not isinstance(given, ast.Call) or not _is_linear(program, call.func):
            continue
        joined = (qualified_name(program, given.func) or "").rpartition(".")[2]
        parts = getattr(given.args[0], "elts", ()) if given.args and joined in _JOINS else ()
        if any(_is_gathered(program, part) for part in parts) and line in _lines(call, given):
            yield Use("gathered.linear", call, call.func, call.func, program)


_JOINS = frozenset({"cat", "concat", "concatenate"})


def _paired(program: Program, line: int) -> Iterator[Use]:
    """``paired.features``: one tensor beside itself for all pairs of its rows, which are put
    together to be multiplied by weights, at the line of either."""
    for call in (call for name in sorted(_JOINS) for call in program.calls(name)):
        given = getattr(call.args[0], "elts", ()) if call.args else ()
        parts = [ast.unparse(_value(program, part)).replace("dim=", "") for part in given]
        roots = {re.split(r"\W", part)[0] for part in parts} - {"torch", "self"}
        spread = {_spread(part) for part in parts}
        above, lines = program.parents[call], _lines(call)
        if isinstance(above, ast.Assign) and isinstance(to := above.targets[0], ast.Name):
            lines |= {read.lineno for read in later_reads(program, above, to.id)}
        if len(parts) == 2 and len(roots) == 1 and spread in _PAIRED and line in lines:
            yield Use("paired.features", call, call.func, call, program)


_PAIRED = (
    {"unsqueeze(1)", "unsqueeze(0)"},
    {"unsqueeze(1)", "unsqueeze(2)"},
    {"repeat_interleave", "repeat"},
)
"""How rows are spread over all pairs, of one tensor or of a batch."""


def _spread(part: str) -> str:
    """How ``part`` repeats the rows of a tensor over those of another; empty where it does not."""
    called = re.search(r"\.(unsqueeze\(\d\)(?=\.expand|\.repeat)|repeat_interleave|repeat\b)", part)
    indexed = re.search(r"\[(:, )*None\b", part)
    place = f"unsqueeze({indexed[0].count(':')})" if indexed else ""
    return called[1] if called else place


def _is_linear(program: Program, called: ast.expr) -> bool:
    """Whether ``called`` is a linear layer of its class, or layers that begin with one."""
    if own_layer(program, called, "Linear"):
        return True
    layers = own_layer(program, called, "Sequential")
    first = layers.args[0] if layers and layers.args else None
    return isinstance(first, ast.Call) and qualified_name(program, first.func) == "torch.nn.Linear"


def _is_gathered(program: Program, part: ast.expr) -> bool:
    part = _value(program, part)
    if isinstance(part, ast.Call):
        return isinstance(part.func, ast.Attribute) and part.func.attr == "index_select"
    function = program.function(part)
    if isinstance(part, ast.Name):
        # In PyTorch Geometric these are the two ends.
        return part.id.endswith(("_i", "_j")) and function is not None and "mess" in function.name
    index = part.slice if isinstance(part, ast.Subscript) else None
    return isinstance(index, (ast.Name, ast.Attribute, ast.Subscript))


_OFFSETS = re.compile(
    r"(\w+)(\[:, None\] - \1\[None(, :)?\]|\[None(, :)?\] - \1\[:, None\]"
    r"|\.unsqueeze\(1\) - \1\.unsqueeze\(0\)|\.unsqueeze\(0\) - \1\.unsqueeze\(1\))"
)
"""Differences of all pairs out of one vector."""


def _positions(program: Program, line: int) -> Iterator[Use]:
    """``positions.net``: a network applied to the offsets of all pairs of positions."""
    for function in program.functions_at(line):
        made: set[str] = set()
        for statement in (node for node in ast.walk(function) if isinstance(node, ast.Assign)):
            pairs, name = _OFFSETS.search(ast.unparse(statement.value)), assigned_name(statement)
            counted = f"{pairs[1]} = torch.arange(" if pairs else ""
            is_offset = counted and counted in ast.unparse(function)
            if name and (is_offset or not made.isdisjoint(variables(statement.value))):
                made.add(name)
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            is_given = not made.isdisjoint(variables(*call.args))
            if is_given and line == call.lineno and _is_linear(program, call.func):
                yield Use("positions.net", call, call.func, call.func, program)


_NEAR = re.compile(r"\.abs\(\) ?<=? ?\w|torch\.abs\(.+\) ?<=? ?\w|band|\.triu\(.*\.tril\(")
"""The text of a mask that leaves each position those near it."""


def _banded(program: Program, line: int) -> Iterator[Use]:
    """``banded.attention``: attention between all pairs, with a mask that leaves near ones."""
    for call in program.calls("scaled_dot_product_attention"):
        mask = keyword(call, "attn_mask") or (*call.args[:4], None, None, None, None)[3]
        if call.lineno != line or mask is None:
            continue
        values = [_value(program, mask)]
        if isinstance(mask, ast.Attribute):
            values = [own_attribute(program, mask) or mask]
            values += buffers(program, program.owner(mask), mask.attr)
        if any(_NEAR.search(ast.unparse(value)) for value in values):
            yield Use("banded.attention", call, None, mask, program)


def _coordinates(program: Program, line: int) -> Iterator[Use]:
    """``coordinates.mm``: a product with a sparse matrix in coordinates, which the file makes and
    never converts."""
    converts = program.calls("coalesce", "to_sparse_csr", "sparse_csr_tensor")
    if converts or not program.calls("sparse_coo_tensor"):
        return
    for call in program.calls("mm", "addmm", "matmul"):
        of_sparse = (qualified_name(program, call.func) or "").startswith("torch.sparse.")
        if of_sparse and call.lineno == line and call.args:
            yield Use("coordinates.mm", call, None, call.args[0], program)


def _columns(program: Program, line: int) -> Iterator[Use]:
    """``grad.column``: gradients of which each call gives one column, though it computes all."""
    for call in program.calls("grad"):
        if qualified_name(program, call.func) != "torch.autograd.grad" or call.lineno != line:
            continue
        function, alike = program.function(call), ast.unparse(call)
        same = (one for one in program.calls("grad") if ast.unparse(one) == alike)
        taken = [one for one in same if _takes_column(program, one)]
        callers = program.callers.get(function, ()) if function else ()
        if len(taken) > 1 or any(_takes_column(program, each) for each in callers):
            yield Use("grad.column", call, None, next(iter(call.args), None), program)


def _takes_column(program: Program, node: ast.AST) -> bool:
    """Whether one column is taken of ``node``, or of its first element."""
    above = program.parents[node]
    while isinstance(above, ast.Subscript):
        index = above.slice
        if isinstance(index, ast.Tuple) and len(index.elts) > 1:
            return ast.unparse(index.elts[-1]) != ":"
        above = program.parents[above]
    return False


def _blocks(program: Program, line: int) -> Iterator[Use]:
    """``blocks.diagonal``: a table between all samples of a batch of which each sample's own part
    is taken: ``c[i] for i, c in enumerate(table.split(sizes, -1))``."""
    for call in program.calls("enumerate"):
        loop, split = program.parents[call], next(iter(call.args), None)
        names = [ast.unparse(one) for one in getattr(getattr(loop, "target", None), "elts", [])]
        is_split = isinstance(split, ast.Call) and called_name(split) == "split"
        if len(names) != 2 or split is None or not is_split:
            continue
        table = split
        while isinstance(table, (ast.Call, ast.Attribute)):
            table = table.func if isinstance(table, ast.Call) else table.value
        own = re.compile(rf"\b{re.escape(names[1])}\[{re.escape(names[0])}\b")
        made = _value(program, table)
        if own.search(ast.unparse(program.parents[loop])) and line in _lines(split, made):
            yield Use("blocks.diagonal", made, table, table, program)


def _value(program: Program, node: ast.expr) -> ast.expr:
    """What ``node`` is assigned, if it is a name that has one assignment; else ``node``."""
    bound = bindings_of(program, node) if isinstance(node, ast.Name) else []
    return (assigned_value(program, bound[0]) if len(bound) == 1 else None) or node


def _lines(*nodes: ast.expr) -> set[int]:
    return {at for one in nodes for at in range(one.lineno, (one.end_lineno or one.lineno) + 1)}
