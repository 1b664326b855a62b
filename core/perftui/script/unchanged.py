"""Work that a loop does again in each turn, though nothing that it depends on changes there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from perftui.script.effects import PURE, PURE_MODULES, reached
from perftui.script.names import bindings_of, calls_of, given_for, qualified_name, values_given
from perftui.script.program import (
    COMPREHENSIONS,
    Function,
    PatchRefusedError,
    Program,
    bound_name,
    called_name,
    called_names,
    receiver,
    root_of,
    value_given,
    with_values,
)
from perftui.script.templates import buffers
from perftui.script.training import statement_at
from perftui.script.uses import UNKNOWN, kind_of

DEEPEST = 3
"""Most functions between the work and the loop."""

_VARIES = re.compile(
    r"(?i)rand|rng|choice|shuffle|sample|normal|integers|uniform|permut|drop|noise|bernoulli|augment"
    r"|gauss|variate|poisson|binomial|exponential|jitter|mixup|observe|simulate|^(next|read\w*|recv|get|input|tell|time|monotonic|perf_counter"
    r"|print|sleep|open|step|backward|item|wait|zero_grad|poll|fetch|frame|capture|state|pull|roll"
    r"|tick|advance|search|play|now|today|uuid\w*|is_\w+|exists|stat|r?glob|listdir|iterdir|scandir"
    r"|getsize)$"
)
"""Functions that may give something else each time, or are called for what they do."""

_STREAMS = re.compile(r"(?i)load|stream|iter|read|queue|dataset|batches|sampl|pool|env|file|source")
"""What a loop goes over that may give something else each time."""

_OF_THE_MOMENT = {"time", "datetime", "os", "resource", "psutil", "wandb", "mlflow"}
"""Modules whose functions tell how things stand now."""

_KNOWN = tuple(f"{module}." for module in PURE_MODULES if module not in _OF_THE_MOMENT)
"""Modules whose functions draw no random numbers under other names."""

_CHANGES = re.compile(
    r"(append\w*|extend\w*|update|add|insert|pop\w*|remove|clear|sort|reverse|shuffle|seek|put\w*|push"
    r"|store|write\w*|fill|reset\w*|load_state_dict|train|eval|step|advance|move|play|tick|run|act"
    r"|simulate|apply|send|feed|set|\w+_)$"
)
"""Methods that change their object."""

_FRESH = re.compile(
    r"(new_)?(zeros|ones|empty|full|eye|arange|linspace)(_like)?|(deep)?copy|clone|join|view\w*"
    r"|reshape|flatten|transpose|permute|(un)?squeeze|expand(_as)?|split|chunk|size|len|float\d*"
    r"|numpy|detach|sha\d+|md5"
)
"""Functions that make what is then filled, or next to nothing."""

_LOOKS = re.compile(r"get\w*|keys|values|items|size|dim|numel|parameters|named_\w+|modules")
"""Methods that without an argument only look."""

_PLAIN_MODULE = re.compile(
    r"torch\.nn\.(Linear|Bilinear|Conv\w+|Embedding\w*|\w+Norm\w*|\w+Pool\w*|ReLU|GELU|SiLU|Tanh)"
)
"""Modules whose result is the same for the same input."""

_DRAWING = re.compile(r"(?i)drop|rrelu|transformer|multihead|gumbel|from_pretrained|timm")
"""Text of a file whose modules may draw random numbers."""

_TRAINS = frozenset({"step", "backward"})

_OF_MODULES = ("parameters", "named_parameters", "train", "eval", "state_dict", "load_state_dict")
"""Methods that modules have, and little else."""

Work = ast.Call | ast.Attribute | ast.BinOp


class Repeated(NamedTuple):
    """What is done again."""

    work: Work
    """The call or formula, or the property that is read."""
    loop: ast.AST
    """The innermost loop whose turns all do the same; the method that is called for each sample or
    step; or the first of several calls that lead to it."""
    outer: ast.AST
    """The outermost such loop; the last of these calls."""
    again: float | None = None
    """Share of it that is done again; None if that depends on the turns of the loops."""
    of_samples: bool = False
    """Whether it is the same for each sample that ``loop`` goes over, in each turn of ``outer``."""


@lru_cache(256)
def repeated_at(program: Program, line: int) -> Repeated | None:
    """What ``line`` does the same in each turn of a loop: all calls of the function around it, else
    the longest call on it."""
    try:
        statement = statement_at(program, line)
    except PatchRefusedError:
        return None
    calls = [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and program.statement(node) is statement
        if node.lineno <= line <= (node.end_lineno or 0) and not _is_trivial(program, node)
    ]
    value = getattr(statement, "value", None)
    formulas: list[Work] = [value] if isinstance(value, ast.BinOp) else []
    whole = _whole(program, statement, DEEPEST)
    found = (_repeated(program, each) for each in (*formulas, *calls))
    return whole or next(filter(None, found), None)


def _whole(program: Program, node: ast.AST, deep: int) -> Repeated | None:
    """The same for the calls of the function around ``node``."""
    function = program.function(node)
    if function is None or not deep or _acts(function):
        return None
    uses = _uses_of(program, function)
    found = [_whole(program, use, deep - 1) or _repeated(program, use) for use in uses]
    return found[0] if all(found) and found else None


def _is_trivial(program: Program, call: ast.Call) -> bool:
    """Whether ``call`` makes a new object to work on, is a builtin or of a single number, what a
    ``with`` enters, or a statement of its own."""
    is_builtin = isinstance(call.func, ast.Name) and not program.bindings(call.func.id)
    is_builtin |= (qualified_name(program, call.func) or "").startswith("math.")
    is_alone = isinstance(program.parents[call], (ast.withitem, ast.Expr))
    return is_builtin or is_alone or _is_fresh(call) or _looks(call) or _changes(call)


def _is_fresh(call: ast.Call) -> bool:
    name = called_name(call)
    return name[:1].isupper() or bool(_FRESH.fullmatch(name))


def _repeated(program: Program, work: Work) -> Repeated | None:
    function = program.function(work)
    if not _is_certain(program, work) or (function is not None and _keeps(function)):
        return None
    return _again(program, work, work, _reads(program, work), DEEPEST) or _twin(program, work)


def _is_certain(program: Program, work: ast.expr) -> bool:
    """Whether ``work`` gives the same for the same values: nothing in it varies or acts, and the
    modules that it calls draw no random numbers, as dropout does."""
    nodes = (node for node, _ in reached(program, work, DEEPEST))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    kinds = {kind_of(program, call.func) for call in calls if _may_be_module(program, call)}
    others = {kind for kind in kinds if not _PLAIN_MODULE.fullmatch(kind)}
    are_seen = all(kind.startswith("torch.nn.") or kind in program.classes for kind in others)
    draws = bool(others) and (not are_seen or any(map(_DRAWING.search, program.lines)))
    return not draws and not _varies(program, work)


def _again(
    program: Program, work: Work, at: ast.expr, reads: set[str], deep: int
) -> Repeated | None:
    """``work`` in the loops around ``at``, which needs ``reads`` for it, and around all uses of the
    function that it is in."""
    around = list(program.loops(at))
    loops = [loop for loop in around if _stays(program, reads, loop)]
    function, here = program.function(at), Repeated(work, loops[0], loops[-1]) if loops else None
    if not loops and around:
        return _of_samples(program, work, around, reads) if at is work else None
    if function is None or not deep or loops != around:
        return here
    uses = _uses_of(program, function)
    outside = [_outside(program, function, use, reads) for use in uses]
    beyond = [
        None
        if needs is None
        else _again(program, work, *_of_modules(program, use, needs), deep - 1)
        for use, needs in zip(uses, outside, strict=True)
    ]
    first = beyond[0] if all(beyond) and beyond else None
    if function.name != "forward":
        here = here or _for_each(program, work, function, reads)
    if first:
        return Repeated(work, (here or first).loop, first.outer)
    return here or _for_each(program, work, function, reads)


def _of_modules(program: Program, use: Work, needs: set[str]) -> tuple[ast.expr, set[str]]:
    """Where ``needs`` of ``use`` stay the same, and what they are there: a loop calls one module
    after another, which may all have been given the same; else each is the same in its turn."""
    loop = next(program.loops(use), None)
    if not isinstance(use, ast.Call) or not isinstance(loop, ast.For):
        return use, needs
    name = bound_name(loop.target)
    if ast.unparse(use.func) != name or any(name in _names(given) for given in use.args):
        return use, needs
    owners, rest = program.classes.get(kind_of(program, use.func), ()), needs - {name}
    if owners and _is_shared(program, owners[0], needs):
        return use, rest
    return loop.iter, rest | _reads(program, loop.iter)


def _is_shared(program: Program, owner: ast.ClassDef, needs: set[str]) -> bool:
    """Whether all objects of a class are given the same for the attributes in ``needs``."""
    places = [at for name in needs for at in program.attributes(name[1:], ast.Store)]
    values = [value_given(program, at) for at in places if program.owner(at) is owner]
    values += [value for name in needs for value in buffers(program, owner, name[1:])]
    return all(isinstance(each, ast.Constant) or _is_alike(program, each) for each in values)


def _is_alike(program: Program, value: ast.expr | None) -> bool:
    """Whether ``value`` is an argument for which all calls of the file give the same."""
    bound = bindings_of(program, value) if isinstance(value, ast.Name) else []
    given = [each for at in bound if isinstance(at, ast.arg) for each in values_given(program, at)]
    plain = [each for each in given if each is not None and not called_names(each)]
    loops = (loop for each in plain for loop in program.loops(each))
    varies = {bound_name(node) for loop in loops for node in ast.walk(loop)}
    is_one = len(plain) == len(given) and len({*map(ast.unparse, plain)}) == 1
    return is_one and varies.isdisjoint(_names(plain[0]))


def _twin(program: Program, work: Work) -> Repeated | None:
    """``work`` that other uses in the same block have already done, directly or in functions that
    they call."""
    for (_, text), places in _texts(program).items():
        mine = sorted({at for at, call in places if call is work}, key=lambda at: at.lineno)
        others = (at for at, call in places if mine and call is not work)
        before = [at for at in others if at not in mine and at.lineno <= mine[0].lineno]
        uses = [*before[:1], *mine]
        if len(uses) < 2:
            continue
        reads = _names(ast.parse(text)) | _reads(program, work)
        if _is_kept(program, reads, uses[0], uses[-1]):
            return Repeated(work, uses[0], uses[-1], 1 - (not before) / len(mine))
    return None


@lru_cache(16)
def _texts(program: Program) -> dict[tuple[ast.AST, str], list[tuple[ast.expr, Work]]]:
    """Calls with arguments as they would be written in each block that leads to them: what is
    called there, and the call."""
    found: dict[tuple[ast.AST, str], list[tuple[ast.expr, Work]]] = {}
    for call in program.calls():
        is_plain = (call.args or call.keywords) and not _is_trivial(program, call)
        is_plain = is_plain and not _is_start(program.function(call))
        for at, text in _lifted(program, call, call, DEEPEST) if is_plain else ():
            found.setdefault((program.parents[program.statement(at)], text), []).append((at, call))
    return {key: places for key, places in found.items() if len(places) > 1}


def _lifted(
    program: Program, at: ast.expr, work: ast.expr, deep: int
) -> Iterator[tuple[ast.expr, str]]:
    """``work``, which happens at ``at``, as it would be written where the function is called."""
    within = list(takewhile(lambda above: not isinstance(above, ast.stmt), program.ancestors(at)))
    if any(isinstance(above, (*COMPREHENSIONS, ast.Lambda, ast.IfExp)) for above in within):
        return
    yield at, ast.unparse(work)
    function = program.function(at)
    calls = _uses_of(program, function) if function and deep else ()
    for use in (call for call in calls if isinstance(call, ast.Call)):
        given: dict[str, ast.expr | None] = {}
        for part in ast.walk(function) if function else ():
            if function and (name := bound_name(part)) in _names(work):
                is_argument = isinstance(part, ast.arg) and name not in given
                itself = (receiver(use) or use.func) if name == "self" else None
                value = itself or given_for(program, use, function, name)
                is_same = is_argument and value is not None and _is_certain(program, value)
                given[name] = value if is_same else None
        if all(given.values()):
            yield from _lifted(program, use, with_values(work, given), deep - 1)


def _is_kept(program: Program, reads: set[str], first: ast.expr, last: ast.expr) -> bool:
    """Whether nothing of ``reads`` changes from ``first`` to ``last``."""
    begin, end = program.statement(first), program.statement(last)
    block = program.block(end)
    between = block[block.index(begin) : block.index(end)] if begin in block else []
    changed = {name for node in between or [begin] for name in _changed(program, node, DEEPEST)}
    alone = (node.value for node in between if isinstance(node, ast.Expr))
    return begin in block and reads.isdisjoint(changed.union(*map(_names, alone)))


def _for_each(program: Program, work: Work, function: Function, reads: set[str]) -> Repeated | None:
    """``work`` of a data set that does not depend on which sample is asked for, or of a module that
    depends on nothing that is given to it or trained."""
    # A data loader calls the first two for each sample.
    is_known = function.name in ("__getitem__", "__getitems__", "forward")
    needs = _outside(program, function, None, reads) if is_known else None
    if needs is None or (function.name == "forward" and _may_train(program, needs)):
        return None
    bound = (
        at
        for name in needs
        for at in (*program.bindings(name), *program.attributes(name[1:], ast.Store))
    )
    functions = [program.function(at) for at in bound]
    is_kept = all(each is None or _is_start(each) or each is function for each in functions)
    return Repeated(work, function, function) if is_kept else None


def _may_train(program: Program, needs: set[str]) -> bool:
    """Whether a training may change ``needs``: outside of where objects are made, or in a loop."""
    every = (each for named in program.functions.values() for each in named if not _is_start(each))
    changed = {name for each in every for name in _changed(program, each, 0)}
    looped = (at for name in needs for at in program.bindings(name) if any(program.loops(at)))
    return "()" in needs or not needs.isdisjoint(changed) or any(looped)


def _of_samples(
    program: Program, work: Work, around: list[ast.AST], reads: set[str]
) -> Repeated | None:
    """``work`` of a module that is not trained, for samples that are the same in each epoch."""
    loop, root = around[0], root_of(getattr(work, "func", work))
    if not isinstance(loop, ast.For) or not isinstance(root, ast.Name):
        return None
    over = loop.iter
    while isinstance(over, ast.Call) and over.args and called_name(over) in ("enumerate", "tqdm"):
        over = over.args[0]
    if not isinstance(over, ast.Name) or not _are_fixed(program, over):
        return None
    rest = reads - {"()", *map(bound_name, ast.walk(loop.target))} | {over.id}
    epochs = [outer for outer in around[1:] if _stays(program, rest, outer)]
    is_frozen = epochs and _is_frozen(program, root.id, epochs[-1])
    return Repeated(work, loop, epochs[-1], of_samples=True) if is_frozen else None


def _value(program: Program, node: ast.expr | None) -> ast.expr | None:
    """What a variable that is set once is set to."""
    bound = program.bindings(node.id) if isinstance(node, ast.Name) else []
    return value_given(program, bound[0]) if len(bound) == 1 else node


def _are_fixed(program: Program, loader: ast.Name) -> bool:
    """Whether ``loader`` gives the same samples in each epoch, though in another order."""
    made = _value(program, loader)
    is_loader = isinstance(made, ast.Call) and called_name(made) == "DataLoader" and made.args
    samples = _value(program, made.args[0]) if is_loader and isinstance(made, ast.Call) else None
    if not isinstance(samples, ast.Call):
        return False
    items = [f for f in program.functions.get("__getitem__", ()) if program.owner(f)]
    own = [f for f in items if getattr(program.owner(f), "name", "") == called_name(samples)]
    parts = [node for f in own for node in ast.walk(f) if isinstance(node, ast.Call)]
    draws = any(_varies(program, call) or _may_be_module(program, call) for call in parts)
    return called_name(samples) == "TensorDataset" or (bool(own) and not draws)


def _is_frozen(program: Program, name: str, loop: ast.AST) -> bool:
    """Whether the module ``name`` is evaluating, in no optimizer, and from ``loop`` on only
    called."""
    function, begin = program.function(loop), getattr(loop, "lineno", 0)
    loads = [(load, program.parents[load]) for load in program.loads(name)]
    is_given = any(isinstance(above, ast.Call) and above.func is not load for load, above in loads)
    later = (
        pair for pair in loads if pair[0].lineno > begin or program.function(pair[0]) != function
    )
    is_touched = any(getattr(above, "attr", "") in _OF_MODULES for _, above in later)
    is_evaluating = any(map(re.compile(rf"\b{name}\b.*\.eval\(\)").search, program.lines))
    is_apart = bool(_trained(program)) and name not in _trained(program)
    return is_evaluating and is_apart and not is_given and not is_touched


@lru_cache(16)
def _trained(program: Program) -> frozenset[str]:
    """Variables, and attributes as ``.name``, that optimizers are given."""
    made = [
        call for call in program.calls() if ".optim." in (qualified_name(program, call.func) or "")
    ]
    given = [value for call in made for each in call.args if (value := _value(program, each))]
    given += [word.value for call in made for word in call.keywords if word.arg == "params"]
    nodes = [node for value in given for node in ast.walk(value)]
    attributes = (f".{node.attr}" for node in nodes if isinstance(node, ast.Attribute))
    return frozenset().union(*map(_names, given), attributes)


def _is_start(function: Function | None) -> bool:
    return function is not None and function.name == "__init__"


def _outside(
    program: Program, function: Function, use: ast.expr | None, reads: set[str]
) -> set[str] | None:
    """``reads`` within ``function`` as what ``use`` of it gives for them, of no known use without
    its parameters; None if not certain."""
    result: set[str] = set()
    changed = _mutated(function)
    waiting, seen = set(reads), set[str]()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        bound = [node for node in ast.walk(function) if bound_name(node) == name]
        if name in changed and name != "self":
            return None
        if not bound:
            result.add(name)
            continue
        value = value_given(program, bound[0]) if len(bound) == 1 else None
        if isinstance(bound[0], ast.arg) and len(bound) == 1 and isinstance(use, ast.Call):
            given = given_for(program, use, function, name) if name != "self" else use.func
            if given is None or not _is_certain(program, given):
                return None
            result |= {ast.unparse(given), *_reads(program, given)}
        elif value is not None and _is_certain(program, value):
            waiting |= _reads(program, value) - seen
        elif name != "self":
            return None
    return result


def _uses_of(program: Program, function: Function) -> list[Work]:
    """Where the file uses ``function``, but in making objects: its calls, those of modules whose
    forward pass it is, or reads of the property that it computes."""
    owner, uses = program.owner(function), list[Work]()
    if any(getattr(node, "id", "") == "property" for node in function.decorator_list):
        uses += program.attributes(function.name, ast.Load)
    elif owner is not None and function.name in ("forward", "__call__"):
        uses += (call for call in program.calls() if kind_of(program, call.func) == owner.name)
    else:
        uses += calls_of(program, function) or ()
    return [use for use in uses if not _is_start(program.function(use))]


def _varies(program: Program, work: ast.expr) -> bool:
    """Whether ``work`` may give something else each time, or do something."""
    nodes = [node for node, _ in reached(program, work, DEEPEST)]
    functions = [node for node in nodes if isinstance(node, Function)]
    if any(_acts(function) or _keeps(function) for function in functions):
        return True
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    qualified = list(filter(None, (qualified_name(program, call.func) for call in calls)))
    foreign = (not f"{n}.".startswith(_KNOWN) or n.startswith("torch.cuda.") for n in qualified)
    streams = (_STREAMS.search(ast.unparse(node.iter)) for node in nodes if hasattr(node, "iter"))
    on = {ast.unparse(call.func) for call in calls}
    # A ``get`` of the file is read itself, and no queue's.
    names = set(map(called_name, calls)) - ({each.name for each in functions} & {"get"})
    return any(foreign) or any(streams) or any(map(_VARIES.search, on | names))


def _acts(function: Function) -> bool:
    """Whether ``function`` changes more than its own variables, or gives nothing."""
    nodes = list(ast.walk(function))
    own = {bound_name(node) for node in nodes if isinstance(node, ast.Name)}
    targets = (node for node in _targets(function) if not isinstance(node, (ast.Tuple, ast.List)))
    roots = map(root_of, targets)
    others = (root for root in roots if getattr(root, "id", "self") not in own)
    gives = any(isinstance(node, (ast.Return, ast.Yield)) and node.value for node in nodes)
    return not gives or any(
        not isinstance(root, ast.Call) or not _is_fresh(root) for root in others
    )


def _keeps(function: Function) -> bool:
    """Whether ``function`` keeps results and looks whether it has them."""
    nodes = list(ast.walk(function))
    tests = [node.test for node in nodes if isinstance(node, (ast.If, ast.IfExp))]
    asked = {
        part.attr for test in tests for part in ast.walk(test) if isinstance(part, ast.Attribute)
    }
    stored = (part for target in _targets(function) for part in ast.walk(target))
    kept = {part.attr for part in stored if isinstance(part, ast.Attribute)}
    is_cached = any("cache" in ast.unparse(node) for node in function.decorator_list)
    return is_cached or not asked.isdisjoint(kept)


def _changes(call: ast.Call) -> bool:
    return bool(_CHANGES.fullmatch(called_name(call)))


def _targets(around: ast.AST) -> Iterator[ast.AST]:
    """What ``around`` sets, and the objects whose methods change them."""
    for node in ast.walk(around):
        if isinstance(getattr(node, "ctx", None), ast.Store):
            yield node
        elif isinstance(node, ast.Call) and _changes(node):
            yield from filter(None, [receiver(node)])


def _may_change(program: Program, call: ast.Call) -> bool:
    """Whether it is a method of an unknown object that may change it, as games and simulators
    do."""
    of, is_alone = receiver(call), isinstance(program.parents[call], ast.Expr)
    if of is None or called_name(call) in PURE or not (call.args or is_alone):
        return False
    is_known = qualified_name(program, call.func) or kind_of(program, of) != UNKNOWN
    return not is_known and not program.own_functions(call)


def _mutated(around: ast.AST) -> set[str]:
    """Variables that are given another part or attribute, or a method that changes them."""
    targets = (target for target in _targets(around) if not bound_name(target))
    return {getattr(root_of(target), "id", "") for target in targets}


def _reads(program: Program, work: ast.expr) -> set[str]:
    """Variables that ``work`` reads, attributes that it or the functions it calls read (as
    ``.name``), and ``()`` where one of them may depend on what is trained."""
    own = {bound_name(node) for node in ast.walk(work)}
    return (_names(work) - own).union(_inner_reads(program, ast.walk(work), DEEPEST))


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _inner_reads(program: Program, nodes: Iterable[ast.AST], deep: int) -> Iterator[str]:
    for node in nodes:
        functions: list[Function] = []
        if isinstance(node, ast.Attribute):
            yield f".{node.attr}"
            functions = program.functions.get(node.attr, [])
            if _may_be_parameter(program, node):
                yield "()"
        elif isinstance(node, ast.Call):
            functions = program.own_functions(node)
            if _may_be_module(program, node):
                yield "()"
        for function in functions if deep else ():
            yield from _inner_reads(program, ast.walk(function), deep - 1)


def _may_be_parameter(program: Program, node: ast.Attribute) -> bool:
    """Whether it may be a parameter of a module: it is not set to a number or an argument."""
    owner = program.owner(node) if getattr(node.value, "id", "") == "self" else None
    if owner is None or not any("Module" in ast.unparse(base) for base in owner.bases):
        return False
    is_method = any(each in owner.body for each in program.functions.get(node.attr, ()))
    if is_method or buffers(program, owner, node.attr):
        return False
    values = [value_given(program, at) for at in program.attributes(node.attr, ast.Store)]
    made = (value is None or called_names(value) for value in values)
    return not values or any(made) or any(_is_parameter(program, each, DEEPEST) for each in values)


def _is_parameter(program: Program, value: ast.expr | None, deep: int) -> bool:
    """Whether the file gives a parameter of a module for ``value``, an argument or variable."""
    value = value.value if isinstance(value, ast.Subscript) else value
    if value is None or isinstance(value, ast.Call):
        return value is not None and called_name(value) == "Parameter"
    stored = program.attributes(getattr(value, "attr", ""), ast.Store)
    bound = bindings_of(program, value) if isinstance(value, ast.Name) else list[ast.AST](stored)
    return deep > 0 and any(
        _is_parameter(program, each, deep - 1)
        for at in bound
        for each in (
            values_given(program, at) if isinstance(at, ast.arg) else [value_given(program, at)]
        )
    )


def _may_be_module(program: Program, call: ast.Call) -> bool:
    """Whether a module, or a method of one, may be what ``call`` calls."""
    if program.own_functions(call):
        return False
    if isinstance(call.func, ast.Name):
        return bool(program.bindings(call.func.id)) and call.func.id not in program.imported
    of = receiver(call)
    if of is None or isinstance(of, ast.Call) or _looks(call):
        return of is None
    name = of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")
    is_set = bool(program.attributes(called_name(call), ast.Store))
    return is_set or name == "self" or name in _modules(program)


def _looks(call: ast.Call) -> bool:
    return not call.args and bool(_LOOKS.fullmatch(called_name(call)))


@lru_cache(16)
def _modules(program: Program) -> frozenset[str]:
    """Last names of what the file treats as modules."""
    names = (receiver(call) for call in program.calls(*_OF_MODULES))
    return frozenset(ast.unparse(name).rpartition(".")[2] for name in names if name is not None)


def _stays(program: Program, reads: set[str], loop: ast.AST, deep: int = DEEPEST) -> bool:
    """Whether nothing of ``reads`` changes in ``loop``, but by what stays the same itself."""
    if not deep:
        return False
    changed = set(_changed(program, loop, DEEPEST))
    if isinstance(loop, COMPREHENSIONS):
        return changed.isdisjoint(reads)
    mutated = _mutated(loop)
    for name in reads & changed:
        bound = [node for node in ast.walk(loop) if bound_name(node) == name]
        value = _given(program, bound[0], loop) if len(bound) == 1 else None
        if value is None or not _is_certain(program, value) or name in _reads(program, value):
            return False
        if name in mutated or not _stays(program, _reads(program, value), loop, deep - 1):
            return False
    return True


def _given(program: Program, target: ast.AST, loop: ast.AST) -> ast.expr | None:
    """What ``target`` is set to; of a loop within ``loop`` that goes over the same each time, what
    that is."""
    heads = (at for at in program.ancestors(target) if isinstance(at, (ast.For, ast.comprehension)))
    head = next(heads, None)
    if head is None or target not in ast.walk(head.target):
        return value_given(program, target)
    is_known = not _STREAMS.search(ast.unparse(head.iter)) or _is_in_order(program, head.iter)
    return head.iter if is_known and head is not loop else None


def _is_in_order(program: Program, loader: ast.expr) -> bool:
    """Whether ``loader`` gives the same samples in the same order each time."""
    bound = bindings_of(program, loader) if isinstance(loader, ast.Name) else []
    given = [each for at in bound if isinstance(at, ast.arg) for each in values_given(program, at)]
    if given or not isinstance(loader, ast.Name):
        return bool(given) and all(each and _is_in_order(program, each) for each in given)
    made = ast.unparse(_value(program, loader) or loader)
    return _are_fixed(program, loader) and not re.search(r"shuffle=(?!False)|sampler", made)


def _changed(program: Program, loop: ast.AST, deep: int) -> Iterator[str]:
    """What ``loop``, or a function, sets or changes: variables, attributes as ``.name``, and ``()``
    where it trains."""
    calls = [node for node in ast.walk(loop) if isinstance(node, ast.Call)]
    unknown = (receiver(call) for call in calls if _may_change(program, call))
    for target in filter(None, (*_targets(loop), *unknown)):
        root = root_of(target)
        if isinstance(root, ast.Name) and root.id not in ("self", "cls"):
            yield root.id
        while isinstance(target, (ast.Subscript, ast.Attribute)):
            if isinstance(target, ast.Attribute):
                yield f".{target.attr}"
            target = target.value
    for call in calls if deep else ():
        if called_name(call) in _TRAINS:
            yield "()"
            yield from _trained(program)
        for function in program.own_functions(call):
            of_function = _changed(program, function, deep - 1)
            yield from (name for name in of_function if name.startswith((".", "()")))
