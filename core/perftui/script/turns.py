"""What a loop goes over, what each turn does, and what it needs of the turn before."""

from __future__ import annotations

import ast
import builtins
import copy
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from perftui.script.names import certainly_given, given_for, qualified_name
from perftui.script.parameter_loops import goes_over_parameters
from perftui.script.program import (
    COMPREHENSIONS,
    Function,
    PatchRefusedError,
    Program,
    bound_name,
    called_name,
    keyword,
    receiver,
    variables,
)
from perftui.script.training import calls_in, trains
from perftui.script.values import Wanted

_DEEP = 3
"""Most functions of the file between a line and the loop that calls it."""

_MOST = 4
"""Most calls of a function that are looked at."""

_FEW = 4
"""Turns below which a loop is left as it is."""

_WRAPPERS = frozenset({"enumerate", "reversed", "list", "tuple", "iter", "tqdm", "sorted"})
_RANGES = frozenset({"range", "arange", "trange"})
_BATCHES = re.compile(
    r"loader|batches|epoch|dataset\b|\bcount\(|range\(\w+, [^,]+, \w|split\((?!1\b)[^)]", re.I
)
_FILES = re.compile(r"listdir|glob|scandir|\.walk\(|paths?\b|files?\b|filenames", re.I)
_TEXTS = re.compile(r"text|token|word|char|letter|sentence|\bsplit\(\)|string|smiles|name", re.I)
_VOCABULARIES = re.compile(r"vocab|stoi|to_i|to_id|2id|ids?\b|index|lookup|table", re.I)
_CLASSES = re.compile(r"unique|class|label|cls|categor|kind|group|cluster|expert|\[.*,.*\]", re.I)
_TIME = re.compile(r"time|seq|step|horizon|length|frame|\bt\b", re.I)
_LOSSES = re.compile(r"loss$|cross_entropy|^nll|^kl_div|^mse|criterion|^bce")
_LAYERS = frozenset({"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN"})
_CELLS = frozenset({"torch.nn.LSTMCell", "torch.nn.GRUCell", "torch.nn.RNNCell"})
_OF_TENSORS = frozenset(
    {"sum", "mean", "max", "min", "argmax", "argsort", "norm", "abs", "exp", "log", "softmax"}
    | {"sigmoid", "item", "detach", "unsqueeze", "view", "reshape", "nonzero", "sort", "topk"}
)
_GATHERS = frozenset({"append", "stack", "tensor", "array", "float", "int", "len", "range"})
_DRAWS = re.compile(r"^rand|normal$|multinomial|bernoulli|dropout")
_ATTENDS = re.compile(r"causal|subsequent_mask|attention|transformer", re.I)
_ACTS = frozenset({"step", "next", "reset", "send", "recv", "act"})
_EXTREMES = frozenset({"max", "min", "maximum", "minimum", "logaddexp"})


@dataclass(frozen=True)
class Turns:
    """One loop."""

    kind: str
    """What it goes over, whether a turn needs the one before (``carry``) or not (``free``), and
    what it does: ``columns free loss``."""
    over: str
    """What it goes over, for a person: ``the 112 columns of concepts``."""
    whole: str
    """What its pieces are taken out of."""
    needs: str
    """What a turn needs of the one before; empty without."""
    ahead: str
    """A call of a turn that needs nothing of the one before, where others do; empty without."""
    at_once: str
    """The loss of a turn with whole tensors in place of pieces; empty without."""
    begins: int
    """Its first line."""


@dataclass(frozen=True)
class _Variable:
    """A name that each turn gives a value."""

    name: str
    of: ast.expr
    """What its values are taken out of, or the ``range`` that counts."""
    counts: bool


def turns_around(program: Program, node: ast.AST, deep: int = _DEEP) -> Turns | None:
    """The innermost loop within the step that runs ``node`` in each turn, also by calls of the
    function around it; None without one, or where it is a stack of layers or goes over batches.
    Where each turn needs the one before, a loop over samples around it counts."""
    for loop in program.loops(node):
        if trains(program, loop):
            return None
        if turns := turns_of(program, loop):
            outer = turns_around(program, loop, deep) if turns.needs else None
            if outer is None or not re.match(r"(samples|items) free", outer.kind):
                return turns
            return replace(outer, kind=f"{outer.kind} around", needs=turns.needs)
    function = program.function(node)
    is_made = function is not None and function.name == "__init__"
    calls = program.callers.get(function, [])[:_MOST] if function and deep and not is_made else ()
    around = (turns_around(program, call, deep - 1) for call in calls)
    return next(filter(None, around), None)


@lru_cache(256)
def turns_of(program: Program, loop: ast.AST) -> Turns | None:
    """What is known of ``loop``; None where it is a stack of layers, or goes over batches."""
    heads = heads_of(loop)
    found = [variable for head in heads for variable in _variables(head)]
    text = " ".join(ast.unparse(head.iter) for head in heads)
    number = number_of_turns(program, loop) if found else 0
    if (number is not None and number < _FEW) or _BATCHES.search(text):
        return None
    called = {called_name(call): call for call in calls_in(program, loop, into_loops=True)}
    needs = "" if isinstance(loop, COMPREHENSIONS) else _carried(program, loop)
    kind, whole = _kind(program, loop, text, found)
    if kind == "modules" and needs:
        return None
    acts = any(isinstance(node, ast.Expr) for node in ast.walk(loop)) or _ACTS & called.keys()
    if not (kind or needs or acts) and found[0].counts and any(map(_DRAWS.search, called)):
        # Turns that do not read their number differ by the numbers drawn.
        is_read = found[0].name in variables(*getattr(loop, "body", [loop]))
        kind = kind if is_read else "repeats"
    if needs and kind in ("samples", "columns", "items"):
        is_time = kind == "columns" or _TIME.search(f"{found[0].name} {whole}")
        kind = "time steps" if is_time else "steps"
    ahead = _ahead(loop, {variable.name for variable in found}, needs) if needs else ""
    does = dict.fromkeys(_does(program, loop, called, needs, found))
    words = [kind, "carry" if needs else "free", *does, *(["ahead"] if ahead else [])]
    if needs and any(_is_taught(program, loop, call) for call in called.values()):
        words.append("taught")
    over = f"the {'' if number is None else f'{number} '}{kind or 'turns'} of {whole}"
    begins = min(node.lineno for node in ast.walk(loop) if isinstance(node, ast.expr))
    return Turns(" ".join(words), over, whole, needs, ahead, _at_once(loop, found), begins)


def _variables(head: ast.For | ast.comprehension) -> Iterator[_Variable]:
    pairs: list[tuple[ast.expr, ast.expr]] = [(head.target, head.iter)]
    while pairs:
        to, over = pairs.pop(0)
        name = called_name(over) if isinstance(over, ast.Call) else ""
        args = over.args if isinstance(over, ast.Call) else []
        parts = to.elts if isinstance(to, ast.Tuple) else []
        if name == "enumerate" and args and parts:
            yield _Variable(ast.unparse(parts[0]), args[0], counts=True)
            pairs += ((part, args[0]) for part in parts[1:])
        elif name in _WRAPPERS and args:
            pairs.append((to, args[0]))
        elif name == "zip" and len(parts) == len(args):
            pairs += zip(parts, args, strict=True)
        elif parts:
            pairs += ((part, over) for part in parts)
        else:
            yield _Variable(ast.unparse(to), over, counts=name in _RANGES)


def number_of_turns(program: Program, loop: ast.AST) -> int | None:
    """How many turns ``loop`` has, where the file shows it."""
    over = next((head.iter for head in heads_of(loop)), None)
    if isinstance(over, (ast.Tuple, ast.List)):
        return len(over.elts)
    if isinstance(over, ast.Call) and called_name(over) in _RANGES and len(over.args) == 1:
        with suppress(PatchRefusedError):
            number = Wanted(program, "turns", int).followed(over.args[0]).value
            return number if isinstance(number, int) else None
    return None


def _kind(  # noqa: C901 - a table
    program: Program, loop: ast.AST, text: str, found: list[_Variable]
) -> tuple[str, str]:
    """The kind of ``loop``, and what its pieces are taken out of."""
    inside, first = list(ast.walk(loop)), ast.unparse(found[0].of)
    names = {variable.name for variable in found}
    counting = {variable.name for variable in found if variable.counts}
    subscripts = [node for node in inside if isinstance(node, ast.Subscript)]
    lookups = [node.value for node in subscripts if _by(node.slice, names - counting)]
    for call in (node for node in inside if isinstance(node, ast.Call)):
        function, of = call.func, receiver(call)
        if _by(function, names):
            of = function.value if isinstance(function, ast.Subscript) else found[-1].of
            return "modules", ast.unparse(of)
        if of is not None and called_name(call) in ("step", "reset") and _by(of, names):
            return "environments", first
        if of is not None and called_name(call) == "get":
            lookups += [of for key in call.args[:1] if _by(key, names - counting)]
    over = any(goes_over_parameters(program, head.iter) for head in heads_of(loop))
    gradients = (node for node in inside if isinstance(node, ast.Attribute) and node.attr == "grad")
    if over or any(_by(node.value, names) for node in gradients):
        return "parameters", first
    if kind := _pair(program, loop, names):
        pieces = [ast.unparse(node.value) for node in subscripts if _dims(node, names)]
        return kind, next(iter(pieces), first)
    if re.sub(r"\.(keys|items)\(\)$", "", first) in map(ast.unparse, lookups):
        return "names", first
    for of in lookups:
        above = program.parents[of]
        if isinstance(program.parents[above], ast.AugAssign):
            while isinstance(of, ast.Subscript):
                of = of.value
            return "entries", ast.unparse(of)
        is_text = _TEXTS.search(text) or _VOCABULARIES.search(ast.unparse(of))
        return ("texts", first) if is_text else ("lookups", ast.unparse(of))
    for node in (node for node in inside if isinstance(node, ast.Compare)):
        sides = [node.left, node.comparators[0]]
        by = [side for side in sides if _by(side, counting or names)]
        others = [side for side in sides if side not in by]
        is_mask = isinstance(node.ops[0], ast.Eq) and by and variables(*others).isdisjoint(names)
        if is_mask and others:
            is_class = counting or _CLASSES.search(text)
            return "classes" if is_class else "keys", ast.unparse(others[0])
    return _of_dims(loop, found, subscripts)


def heads_of(loop: ast.AST) -> list[ast.For | ast.comprehension]:
    """What says how ``loop`` goes on: itself, or the parts of a comprehension."""
    return [head for head in getattr(loop, "generators", [loop]) if hasattr(head, "iter")]


def _of_dims(
    loop: ast.AST, found: list[_Variable], subscripts: list[ast.Subscript]
) -> tuple[str, str]:
    """The kind of a loop over pieces of tensors, by the dimension that they are taken from."""
    variable = found[0]
    names = {other.name for other in found if other.counts}
    pieces = [(node, dim) for node in subscripts for dim in _dims(node, names)]
    dim: int | None
    if len(names) < len(found):
        whole, dim = _unbound(next(other.of for other in found if not other.counts))
    elif pieces:
        node, dim = min(pieces, key=lambda pair: pair[0].lineno)
        whole = _without(node, names)
    else:
        whole, dim = ast.unparse(variable.of), None
    is_text = _FILES.search(whole) or _TEXTS.search(whole)
    if dim == 0 and (is_text or not (pieces or _computes(loop, found))):
        return "items", whole
    if dim is None:
        return "", whole
    if dim and _TIME.search(variable.name):
        return "time steps", whole
    return "columns" if dim else "samples", whole


def _computes(loop: ast.AST, found: list[_Variable]) -> bool:
    """Whether a turn computes with what it is given, as with a tensor."""
    names = {variable.name for variable in found if not variable.counts}
    computing = (
        node
        for node in ast.walk(loop)
        if isinstance(node, (ast.BinOp, ast.Compare)) or getattr(node, "attr", "") in _OF_TENSORS
    )
    return any(_by(side, names) for node in computing for side in ast.iter_child_nodes(node))


def _by(node: ast.AST, names: Collection[str]) -> bool:
    """Whether ``node`` is one of ``names``, or taken out of something by one."""
    node = node.slice if isinstance(node, ast.Subscript) else node
    return isinstance(node, ast.Name) and node.id in names


def _parts(node: ast.Subscript) -> list[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def _dims(node: ast.Subscript, names: Collection[str]) -> list[int]:
    """Dimensions where ``node`` takes a piece by one of ``names``."""
    parts = enumerate(_parts(node))
    return [at for at, part in parts if not variables(part).isdisjoint(names)]


def _without(node: ast.Subscript, names: Collection[str]) -> str:
    """``node`` with whole dimensions in place of pieces by ``names``: ``x`` of ``x[:, t]``."""
    parts = [(ast.unparse(part).strip("()"), variables(part)) for part in _parts(node)]
    texts = [":" if read & {*names} else text for text, read in parts]
    while texts and texts[-1] == ":":
        texts.pop()
    return ast.unparse(node.value) + (f"[{', '.join(texts)}]" if texts else "")


def _unbound(over: ast.expr) -> tuple[str, int | None]:
    """What a loop over ``over`` takes pieces of, and in which dimension."""
    of = receiver(over) if isinstance(over, ast.Call) else None
    if isinstance(over, ast.Call) and of is not None:
        last = over.args[-1:] if called_name(over) == "unbind" else over.args[1:]
        arg = keyword(over, "dim") or next(iter(last), None)
        dim = arg.value if isinstance(arg, ast.Constant) else 0
        if called_name(over) in ("unbind", "split", "chunk") and isinstance(dim, int):
            return ast.unparse(of), dim
        return ast.unparse(of), 1 if called_name(over) in ("t", "transpose") else None
    if isinstance(over, ast.Attribute) and over.attr == "T":
        return ast.unparse(over.value), 1
    return ast.unparse(over), 0 if isinstance(over, (ast.Name, ast.Attribute)) else None


def _pair(program: Program, loop: ast.AST, names: set[str]) -> str:
    """Whether the loop, with the one around it, goes over pairs of samples or elements of a grid;
    empty where it does neither."""
    over = " ".join(ast.unparse(head.iter) for head in heads_of(loop))
    if re.search(r"\b(combinations|permutations|product)\(", over):
        return "pairs"
    outer = next(program.loops(loop), None)
    if not isinstance(outer, ast.For) or trains(program, outer):
        return ""
    others = {variable.name for variable in _variables(outer)}
    mine, theirs, both = set(), set(), False
    for node in ast.walk(loop):
        if isinstance(node, ast.Subscript):
            read = variables(node.slice)
            by_mine, by_theirs = not read.isdisjoint(names), not read.isdisjoint(others)
            is_element = not any(isinstance(part, ast.Slice) for part in _parts(node))
            # Rows of a list of lists are taken by the loop around.
            by_both = by_theirs or variables(getattr(node.value, "slice", node.slice)) & others
            both |= by_mine and bool(by_both) and is_element
            mine |= {ast.unparse(node.value)} if by_mine and not by_theirs else set()
            theirs |= {ast.unparse(node.value)} if by_theirs and not by_mine else set()
    if mine & theirs or (both and mine and theirs):
        return "pairs"
    return "elements" if both else ""


def _carried(program: Program, loop: ast.AST) -> str:
    """The first name that a turn reads as the turn before left it; sums and lists are none."""
    inside = set(ast.walk(loop))
    stores: dict[str, list[ast.AST]] = {}
    for node in inside:
        if (name := bound_name(node)) is not None:
            stores.setdefault(name, []).append(node)
    for node in (below for part in getattr(loop, "body", ()) for below in ast.walk(part)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in stores:
            is_anew = not inside.isdisjoint(certainly_given(program, node))
            if not is_anew and not _is_sum(program, node, stores[node.id]):
                return node.id
    # An array or a list of which a turn reads what turns before have written.
    written: dict[str, set[str]] = {}
    read: list[tuple[str, str]] = []
    for node in ast.walk(loop):
        if isinstance(node, ast.Subscript):
            at = ast.unparse(node.value), ast.unparse(node.slice)
            if isinstance(node.ctx, ast.Store):
                written.setdefault(at[0], set()).add(at[1])
            else:
                read.append(at)
        elif isinstance(node, ast.Call) and called_name(node) == "append":
            written.setdefault(ast.unparse(node.func).removesuffix(".append"), set())
    return next((name for name, at in read if at not in written.get(name, {at})), "")


def _is_sum(program: Program, read: ast.Name, stores: list[ast.AST]) -> bool:
    """Whether a turn only adds to ``read``, or only takes the maximum with it."""
    statements = [program.parents[store] for store in stores]
    for value in (getattr(statement, "value", None) for statement in statements):
        sides = [value.left, value.right] if isinstance(value, ast.BinOp) else []
        is_added = isinstance(getattr(value, "op", None), ast.Add)
        if isinstance(value, ast.Call) and called_name(value) in _EXTREMES:
            sides, is_added = value.args, len(stores) == 1
        reads = [side for side in sides if read.id in variables(side)]
        if not is_added or len(reads) != 1 or not isinstance(reads[0], ast.Name):
            return False
    return program.statement(read) in statements


def _since(loop: ast.AST, needs: str) -> set[str]:
    """Names that depend on what the turn before left."""
    names, count = {needs.partition("[")[0]}, 0
    while count < len(names):
        count = len(names)
        for node in ast.walk(loop):
            if isinstance(node, (ast.Assign, ast.AugAssign)) and variables(node.value) & names:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= variables(*targets)
    return names


def _ahead(loop: ast.AST, names: set[str], needs: str) -> str:
    """The first call of a turn on a piece that reads nothing that depends on the turn before."""
    since = _since(loop, needs)
    for node in ast.walk(loop):
        is_call = isinstance(node, ast.Call) and not hasattr(builtins, ast.unparse(node.func))
        if is_call and variables(*node.args) & names and not variables(node) & since:  # type: ignore[attr-defined] # a call
            return ast.unparse(node)
    return ""


def _is_linear(loop: ast.AST, needs: str) -> bool:
    """Whether a turn only adds to a multiple of what the turn before left, by a factor that stays
    the same."""
    fresh = {bound_name(node) for node in ast.walk(loop)} - {needs}
    assigned = (node for node in ast.walk(loop) if isinstance(node, ast.Assign))
    values = [node.value for node in assigned if needs in variables(*node.targets)]
    value = values[0] if len(values) == 1 else None
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return False
    terms = [side for side in (value.left, value.right) if needs in variables(side)]
    products = [term for term in terms if isinstance(getattr(term, "op", None), ast.Mult)]
    return len(terms) == len(products) == 1 and variables(*terms).isdisjoint(fresh)


def _does(
    program: Program, loop: ast.AST, called: dict[str, ast.Call], needs: str, found: list[_Variable]
) -> Iterator[str]:
    """Words for what a turn does, with the functions of the file that it calls."""
    if needs and _is_linear(loop, needs):
        yield "linear"
    made = _made_by(program, called)
    if any(name.startswith("torch.nn.utils.parametriz") for name in made):
        yield "parametrized"
    if not made.isdisjoint(_CELLS):
        # What a cell reads may itself need the state, as with attention.
        since = _since(loop, needs)
        cells = [call for name, call in called.items() if call.args and "cell" in name.lower()]
        yield "fed" if any(variables(call.args[0]) & since for call in cells) else "cell"
    if any(map(_LOSSES.search, called)):
        yield "loss"
        yield from ["classes"] if {"cross_entropy", "nll_loss"} & called.keys() else []
    if called.keys() <= _GATHERS:
        yield "only"
    yield from ["decoded"] if _is_decoded(program, loop, found) else []
    counting = {variable.name for variable in found if variable.counts}
    own = {name for node in ast.walk(loop) if (name := bound_name(node))}
    for node in ast.walk(loop):
        if isinstance(node, ast.Compare) and _by(node.comparators[0], counting):
            yield "compared"
        if isinstance(node, ast.Slice) and node.upper and variables(node.upper) & own:
            yield "window" if node.lower else "prefix"
        if isinstance(node, ast.Subscript) and any(
            isinstance(part, ast.Subscript) and variables(part.slice) & counting
            for part in _parts(node)
        ):
            yield "gathers"


def _is_decoded(program: Program, loop: ast.AST, found: list[_Variable]) -> bool:
    """Whether a turn calls what attends on all before a position, and reads the last of it."""
    inside, names = list(ast.walk(loop)), {variable.name for variable in found}
    own = {bound_name(node) for node in inside}
    calls = (node for node in inside if isinstance(node, ast.Call))
    called = (c for c in calls if not qualified_name(program, c.func) and called_name(c) != "len")
    given = (node for call in called for node in call.args if isinstance(node, ast.Subscript))
    starts = (
        isinstance(part, ast.Slice) and not part.lower and variables(part) & names
        for node in given
        if variables(node.value).isdisjoint(own)
        for part in _parts(node)[1:]
    )
    ends = (ast.unparse(node.slice) for node in inside if isinstance(node, ast.Subscript))
    is_last = any(re.search(r", -1\b", end) for end in ends)
    return is_last and any(starts) and any(map(_ATTENDS.search, program.lines))


def _is_taught(program: Program, loop: ast.AST, call: ast.Call) -> bool:
    """Whether ``call`` hands the state of a recurrent layer on, and all else that it reads is known
    before the loop."""
    statement = program.parents[call]
    if next(program.loops(call), None) is not loop or not isinstance(statement, ast.Assign):
        return False
    made, read = variables(*statement.targets), variables(*call.args)
    state, since = made & read, {name for first in made for name in _since(loop, first)}
    if not state or not (read - state).isdisjoint(since):
        return False
    return _is_layer(program, call) or any(
        _is_layer(program, inner) and inner.args and variables(inner.args[0]).isdisjoint(after)
        for function in program.own_functions(call)
        for after in (_after(program, call, function, state),)
        for inner in ast.walk(function)
        if isinstance(inner, ast.Call)
    )


def _is_layer(program: Program, call: ast.Call) -> bool:
    return not _LAYERS.isdisjoint(_made_by(program, {"": call}))


def _after(program: Program, call: ast.Call, function: Function, state: set[str]) -> set[str]:
    """Names in ``function`` that depend on what ``call`` hands it of ``state``."""
    names = (arg.arg for arg in function.args.args)
    given = ((name, given_for(program, call, function, name)) for name in names)
    own = (name for name, value in given if value is not None and variables(value) & state)
    return {name for first in own for name in _since(function, first)}


def _made_by(program: Program, called: dict[str, ast.Call]) -> set[str]:
    """Qualified names of what made the modules that are called: ``self.rec`` by ``orthogonal``."""
    functions = {ast.unparse(call.func) for call in called.values()}
    return {
        qualified_name(program, node.value.func) or ""
        for node in program.statements()
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        if ast.unparse(node.targets[0]) in functions
    }


def _at_once(loop: ast.AST, found: list[_Variable]) -> str:
    """The loss of a turn with whole tensors in place of the pieces."""
    of = {variable.name: variable.of for variable in found if not variable.counts}
    names = {variable.name for variable in found}
    calls = [node for node in ast.walk(loop) if isinstance(node, ast.Call)]
    losses = [call for call in calls if _LOSSES.search(called_name(call))]
    if not losses:
        return ""

    class Whole(ast.NodeTransformer):
        def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
            if variables(node.slice).isdisjoint(names):
                return node
            return ast.parse(_without(node, names), mode="eval").body

        def visit_Name(self, node: ast.Name) -> ast.expr:
            return of.get(node.id, node)

    ends = getattr(found[0].of, "args", []) if found[0].counts else []
    shifted = (node for node in (*losses[0].args, *ends) for node in ast.walk(node))
    if len(ends) > 1 or any(isinstance(node, ast.BinOp) for node in shifted):
        return f"{ast.unparse(losses[0].func)} of whole tensors, shifted alike"
    return ast.unparse(Whole().visit(copy.deepcopy(losses[0])))
