"""What a line of a file calls, indexes and reads, by qualified names: ``np.append(x, y)`` is
``numpy.append``, and ``self.files.glob(y)`` is ``pathlib.Path.glob`` where the file shows that
``self.files`` is a path."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from perftui.script.names import bindings_of, given_for, qualified_name, values_given
from perftui.script.program import Loop, Program, called_name, called_names, receiver, value_given
from perftui.script.training import ITSELF, TRAINS, trains
from perftui.script.turns import Turns, turns_around, turns_of

UNKNOWN = "?"
"""The class of a value that the file does not show."""

_DEEP = 8
"""Most names between a value and what makes it."""

_TENSOR, _ARRAY, _FRAME = "torch.Tensor", "numpy.ndarray", "pandas.DataFrame"
_PATH, _IMAGE, _SERIES, _OUTER = "pathlib.Path", "PIL.Image.Image", "pandas.Series", "torch.outer"

_RETURNED = {
    **dict.fromkeys(("pandas.read_csv", "pandas.read_parquet", "pandas.read_json"), _FRAME),
    **dict.fromkeys(("pandas.read_pickle", "pandas.concat", "pandas.merge"), _FRAME),
    **dict.fromkeys(("PIL.Image.open", "PIL.Image.fromarray", "PIL.Image.new"), _IMAGE),
    **dict.fromkeys(("os.listdir", "glob.glob", "random.sample", "builtins.sorted"), "list"),
    **dict.fromkeys(("cv2.imread", "cv2.resize", "cv2.cvtColor", "cv2.imdecode"), _ARRAY),
    **dict.fromkeys(("tempfile.mkdtemp", "os.path.join", "os.getcwd"), "str"),
    **dict.fromkeys(("datasets.load_dataset", "datasets.load_from_disk"), "datasets.Dataset"),
    **dict.fromkeys(("torch.load", "torch.compile", "torch.no_grad", "torch.device"), ""),
    **{f"builtins.{name}": name for name in ("list", "dict", "set", "tuple", "str")},
    "torch.nn.utils.rnn.pack_padded_sequence": "torch.nn.utils.rnn.PackedSequence",
    **dict.fromkeys(("torch.outer", "torch.ger", "numpy.outer"), _OUTER),
    "builtins.open": "io.TextIOWrapper",
    "logging.getLogger": "logging.Logger",
    "zarr.open": "zarr.Array",
    "lmdb.open": "lmdb.Environment",
    "sqlite3.connect": "sqlite3.Connection",
    "numpy.load": "",
    "numpy.vectorize": "numpy.vectorize",
    "numpy.random.default_rng": "numpy.random.Generator",
}
"""The class of what functions return, where their name does not say it; empty where it differs."""

_OTHER = frozenset(
    {"item", "tolist", "numpy", "size", "dim", "stride", "numel", "backward", "unbind", "split"}
    | {"chunk", "storage", "tobytes", "max", "min", "topk", "sort", "shape", "device", "dtype"}
    | {"requires_grad", "is_cuda", "ndim", "grad_fn", "values", "items", "save", "manual_seed"}
)
"""Functions, methods and attributes of tensors and arrays that give neither."""

_ALIKE = {
    _PATH: frozenset({"parent", "resolve", "absolute", "joinpath", "with_suffix", "expanduser"}),
    _IMAGE: frozenset({"convert", "resize", "crop", "rotate", "copy", "transpose", "filter"}),
    _OUTER: frozenset({"view", "reshape", "unsqueeze", "expand", "repeat", "to", "float", "clone"}),
    _FRAME: frozenset({"reset_index", "sample", "head", "copy", "dropna", "fillna", "iloc", "loc"}),
}
"""Methods and attributes that give another object of the same class."""

_ELEMENTS = {_OUTER: _OUTER, _FRAME: _SERIES, _TENSOR: _TENSOR, _ARRAY: _ARRAY}
_LITERALS: dict[type[ast.AST], str] = {
    **dict.fromkeys((ast.List, ast.ListComp), "list"),
    **dict.fromkeys((ast.Dict, ast.DictComp), "dict"),
    **dict.fromkeys((ast.Set, ast.SetComp), "set"),
    ast.Tuple: "tuple",
    ast.JoinedStr: "str",
}


@dataclass(frozen=True)
class Use:
    """A call, subscript, attribute or the like on a line."""

    name: str
    """``numpy.append``, ``collections.deque.__getitem__``; ``?.append`` of an unknown object."""
    node: ast.expr
    of: ast.expr | None
    """The object or module whose method, element or attribute it is."""
    first: ast.expr | None
    """The first argument, index, or what is written."""
    program: Program = field(repr=False)

    @property
    def last(self) -> str:
        """The method or function alone."""
        return self.name.rpartition(".")[2]

    @cached_property
    def given(self) -> tuple[str, str]:
        """The classes of ``first`` and of the second argument."""
        second = next(iter(getattr(self.node, "args", ())[1:2]), None)
        return kind_of(self.program, self.first), kind_of(self.program, second)

    @property
    def object(self) -> ast.expr | None:
        """``of``, if it is no module or class by its import; else the first argument."""
        is_object = self.of is not None and not qualified_name(self.program, self.of)
        return self.of if is_object else self.first

    @cached_property
    def around(self) -> str:
        """Text of the function around it, outside of functions of the outermost loop."""
        loops = tuple(self.program.loops(self.node))
        whole = self.program.function(self.node) or (loops[-1] if loops else None)
        return ast.unparse(whole) if whole else ""

    @cached_property
    def of_class(self) -> str:
        """Text of the class around it."""
        owner = self.program.owner(self.node)
        return ast.unparse(owner) if owner else ""

    @cached_property
    def grows(self) -> bool:
        """Whether the result replaces one of the arguments."""
        targets = getattr(self.program.statement(self.node), "targets", ())
        parts = (part for part in ast.walk(self.node) if isinstance(part, ast.expr))
        return not {ast.unparse(to) for to in targets}.isdisjoint(map(ast.unparse, parts))

    @cached_property
    def in_loop(self) -> bool:
        """Whether each turn of a loop or comprehension within the step runs it."""
        loop = next(self.program.loops(self.node), None)
        is_step = isinstance(loop, Loop) and not TRAINS.isdisjoint(called_names(loop))
        return loop is not None and not is_step

    @cached_property
    def turns(self) -> Turns | None:
        """The loop within the step that runs it in each turn, or that it begins."""
        begun = self.program.statement(self.node)
        if isinstance(begun, ast.For) and not trains(self.program, begun):
            return turns_of(self.program, begun)
        return turns_around(self.program, self.node)


@lru_cache(64)
def uses_at(program: Program, line: int) -> tuple[Use, ...]:
    """What the line uses; of a statement of several lines only what begins there, if any does."""
    found = [use for node in program.nodes for use in _uses(program, node, line)]
    ends = ((use, getattr(use.node, "func", use.node).end_lineno) for use in found)
    return tuple(use for use, end in ends if line in (use.node.lineno, end)) or tuple(found)


def _uses(program: Program, node: ast.AST, line: int) -> Iterator[Use]:  # noqa: C901 - a table
    def use(of: ast.expr, method: str, first: ast.expr | None = None) -> Use:
        at = node if isinstance(node, ast.expr) else of
        return Use(f"{kind_of(program, of)}.{method}", at, of, first, program)

    whole = node.iter if isinstance(node, ast.For) else node
    if not isinstance(whole, (ast.expr, ast.AugAssign)):
        return
    if not whole.lineno <= line <= (whole.end_lineno or whole.lineno):
        return
    if isinstance(node, ast.For):
        yield use(node.iter, "__iter__")
    elif isinstance(node, ast.AugAssign):
        yield use(node.target, "__iadd__", node.value)
    elif isinstance(node, ast.Call):
        given = [*node.args, *(word.value for word in node.keywords)]
        first = given[0] if given else None
        yield Use(_called(program, node.func), node, receiver(node), first, program)
    elif isinstance(node, ast.Subscript):
        is_read = isinstance(node.ctx, ast.Load)
        first = node.slice if is_read else getattr(program.parents[node], "value", None)
        yield use(node.value, "__getitem__" if is_read else "__setitem__", first)
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        above = program.parents[node]
        if not (isinstance(above, ast.Call) and above.func is node):
            yield use(node.value, node.attr)
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        yield use(node.comparators[0], "__contains__", node.left)
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq):
        yield use(node.left, "__eq__", node.comparators[0])
    elif isinstance(node, ast.FormattedValue):
        yield use(node.value, "__format__")
    elif isinstance(node, ast.BinOp):
        yield use(node.left, "__op__", node.right)


def _called(program: Program, function: ast.expr) -> str:
    """The qualified name of what is called."""
    if name := qualified_name(program, function) or _builtin(program, function):
        return name
    if isinstance(function, ast.Attribute):
        kind = kind_of(program, function.value)
        if kind not in (UNKNOWN, *program.classes) or kind_of(program, function) == UNKNOWN:
            return f"{kind}.{function.attr}"
    return f"{kind_of(program, function)}.__call__"


def _builtin(program: Program, function: ast.expr) -> str:
    name = function.id if isinstance(function, ast.Name) else ""
    return f"builtins.{name}" if hasattr(builtins, name) and not program.bindings(name) else ""


def kind_of(program: Program, node: ast.expr | None) -> str:
    """The qualified class of a value, as far as the file shows; ``UNKNOWN`` else."""
    return (node is not None and _class_of(program, node, _DEEP)) or UNKNOWN


def reads_given(program: Program, call: ast.Call, node: ast.AST) -> list[ast.Name] | None:
    """Reads of what ``call`` gives its argument ``node`` to; None if no function of the file
    certainly has it."""
    parameters = [
        arg
        for function in program.own_functions(call)
        for arg in (*function.args.args, *function.args.kwonlyargs)
        if given_for(program, call, function, arg.arg) is node
    ]
    loads = ((load, arg) for arg in parameters for load in program.loads(arg.arg))
    reads = [load for load, arg in loads if bindings_of(program, load)[:1] == [arg]]
    return reads if parameters else None


@lru_cache(4096)
def _class_of(program: Program, node: ast.expr, deep: int) -> str:
    if not deep or type(node) in _LITERALS:
        return _LITERALS.get(type(node), "")
    deep -= 1
    if isinstance(node, ast.Constant):
        return "" if node.value is None else type(node.value).__name__
    if isinstance(node, ast.Call):
        return _made_by(program, node, deep)
    if isinstance(node, ast.Attribute):
        return _attribute(program, node, deep)
    if isinstance(node, ast.Subscript):
        whole = _class_of(program, node.value, deep)
        if isinstance(node.slice, ast.Slice):
            return whole
        return _ELEMENTS.get(whole, "") or _element(program, node.value, deep)
    if isinstance(node, ast.BinOp):
        sides = [_class_of(program, side, deep) for side in (node.left, node.right)]
        alike = sides[0] if sides[0] == sides[1] else ""
        return next((side for side in sides if side in (_PATH, _OUTER, _TENSOR, _ARRAY)), alike)
    if isinstance(node, ast.Name):
        return _same(program, bindings_of(program, node), deep)
    return ""


def _only(kinds: Iterable[str]) -> str:
    """The only one of ``kinds``; empty if there are several, or none is known."""
    known = set(kinds)
    return known.pop() if len(known) == 1 else ""


def _same(program: Program, targets: Iterable[ast.AST], deep: int) -> str:
    """The class of what all of ``targets`` are given, None and parts of themselves aside."""
    return _only(_bound(program, to, deep) for to in targets if not _adds_nothing(program, to))


def _adds_nothing(program: Program, target: ast.AST) -> bool:
    """Whether ``target`` gets None, or a part or more of what it was."""
    value = value_given(program, target)
    if isinstance(value, ast.Subscript):
        return ast.unparse(value.value) == ast.unparse(target)
    is_more = isinstance(program.parents.get(target), ast.AugAssign)
    return is_more or (isinstance(value, ast.Constant) and value.value is None)


def _bound(program: Program, target: ast.AST, deep: int) -> str:
    """The class of what ``target`` is given."""
    above = program.parents.get(target)
    note = target.annotation if isinstance(target, ast.arg) else getattr(above, "annotation", None)
    if note is not None:
        plain = note.value if isinstance(note, ast.Subscript) else note
        return qualified_name(program, plain) or str(getattr(plain, "id", ""))
    if isinstance(target, ast.arg):
        given = values_given(program, target)
        return _only(_class_of(program, each, deep) if each else "" for each in given)
    if isinstance(above, (ast.For, ast.comprehension)) and above.target is target:
        over = _class_of(program, above.iter, deep)
        return over if over in (_TENSOR, _ARRAY) else _element(program, above.iter, deep)
    value = value_given(program, target)
    return _class_of(program, value, deep) if value is not None else ""


def _element(program: Program, whole: ast.expr, deep: int) -> str:
    """The class of the elements of ``whole``, if it is a list of modules made in one place."""
    if isinstance(whole, ast.Subscript):
        return _element(program, whole.value, deep)
    if isinstance(whole, ast.Attribute) and deep:
        stored = program.attributes(whole.attr, ast.Store)
        values = [value_given(program, at) for at in stored]
        return _only(_element(program, each, deep - 1) if each else "" for each in values)
    if isinstance(whole, ast.Call) and called_name(whole) == "ModuleList" and whole.args:
        whole = whole.args[0]
    if isinstance(whole, (ast.ListComp, ast.GeneratorExp)):
        return _class_of(program, whole.elt, deep)
    made = whole.elts if isinstance(whole, ast.List) else ()
    return _only(_class_of(program, each, deep) for each in made)


def _attribute(program: Program, node: ast.Attribute, deep: int) -> str:
    """The class of an attribute: by what the methods of its object's class assign to it."""
    owner = None
    if isinstance(node.value, ast.Name) and node.value.id == "self":
        owner = program.owner(node)
    elif kind := _class_of(program, node.value, deep):
        owner = next(iter(program.classes.get(kind, ())), None)
        if owner is None:
            return _of_method(kind, node.attr)
    stored = program.attributes(node.attr, ast.Store) if owner else ()
    return _same(program, (at for at in stored if program.owner(at) is owner), deep)


def _of_method(kind: str, name: str) -> str:
    """The class of an attribute, or of what a method returns."""
    if name in ("values", "to_numpy") and kind in (_FRAME, _SERIES):
        return _ARRAY
    alike = name not in _OTHER if kind in (_TENSOR, _ARRAY) else name in _ALIKE.get(kind, ())
    return kind if alike else ""


def _made_by(program: Program, call: ast.Call, deep: int) -> str:
    """The class of what ``call`` returns."""
    name = qualified_name(program, call.func) or _builtin(program, call.func)
    if name:
        return _returned(name)
    if isinstance(call.func, ast.Name) and call.func.id in program.classes:
        return call.func.id
    on = receiver(call)
    kind = _class_of(program, on, deep) if on is not None else ""
    if kind and called_name(call) in ITSELF:
        return kind
    if kind and kind not in program.classes:
        return _of_method(kind, getattr(call.func, "attr", ""))
    functions = program.own_functions(call)
    if len(functions) == 1:
        ends = (node for node in ast.walk(functions[0]) if isinstance(node, ast.Return))
        return _only(_class_of(program, end.value, deep) if end.value else "" for end in ends)
    return ""


def _returned(name: str) -> str:
    """The class of what the function, or class, of that name returns."""
    above, _, last = name.rpartition(".")
    if name in _RETURNED:
        return _RETURNED[name]
    if last[:1].isupper() or last == "deque":
        return name
    if last == "from_pretrained" or last in _OTHER:
        return above if last == "from_pretrained" else ""
    return {"torch": _TENSOR, "torch.nn.functional": _TENSOR, "numpy": _ARRAY}.get(above, "")
