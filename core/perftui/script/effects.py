"""Statements that only look at a training, by what they call: leaving one out changes no weight."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from perftui.script.names import later_reads, names_bound, qualified_name
from perftui.script.program import (
    PatchRefusedError,
    Program,
    assigned_value,
    called_name,
    called_names,
    receiver,
    root_of,
)
from perftui.script.training import TRAINS

PURE = frozenset(
    {
        # of Python
        *("print", "len", "str", "int", "float", "bool", "round", "abs", "sum", "min", "max"),
        *("sorted", "zip", "enumerate", "range", "reversed", "map", "filter", "any", "all", "repr"),
        *("list", "tuple", "dict", "set", "isinstance", "hasattr", "getattr", "type", "id", "open"),
        *("format", "bytes", "divmod", "pow", "vars", "chr", "ord", "callable", "slice", "hash"),
        *("join", "split", "rsplit", "strip", "rstrip", "lstrip", "replace", "startswith", "lower"),
        *("upper", "endswith", "rjust", "ljust", "center", "zfill", "encode", "decode", "title"),
        *("items", "keys", "values", "get", "copy", "deepcopy", "index", "count", "partition"),
        *("strftime", "isoformat", "now", "today", "time", "perf_counter", "total_seconds"),
        *("exists", "mkdir", "makedirs", "basename", "dirname", "is_file", "with_suffix", "fileno"),
        *("unlink", "glob", "rename", "iterdir", "touch", "stat", "resolve", "write_text"),
        *("rmtree", "close", "flush", "fsync", "getvalue", "tell", "elapsed"),
        *("namedtuple", "Path"),
        # of tensors and arrays
        *("item", "tolist", "numpy", "detach", "cpu", "clone", "contiguous", "data_ptr", "numel"),
        *("size", "dim", "ndimension", "mean", "std", "var", "norm", "sum", "prod", "argmax"),
        *("argmin", "argsort", "topk", "sort", "median", "quantile", "histc", "unique", "eq", "ne"),
        *("ge", "le", "gt", "lt", "view", "view_as", "reshape", "flatten", "squeeze", "unsqueeze"),
        *("permute", "transpose", "t", "expand", "repeat", "long", "double", "half", "byte"),
        *("add", "sub", "mul", "div", "clamp", "clip", "exp", "log", "log2", "log10", "sqrt"),
        *("softmax", "log_softmax", "sigmoid", "tanh", "isnan", "isinf", "isfinite", "nonzero"),
        *("array", "asarray", "stack", "cat", "concatenate", "from_numpy", "make_grid", "astype"),
        *("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"),
        *("mem_get_info", "memory_stats", "synchronize", "elapsed_time", "no_grad", "tobytes"),
        *("inference_mode", "isclose", "allclose", "equal", "element_size", "pin_memory"),
        # of models, optimizers and trackers
        *("state_dict", "parameters", "named_parameters", "named_modules", "modules", "children"),
        *("named_buffers", "buffers", "get_last_lr", "get_lr", "get_scale", "unwrap_model"),
        *("get_rank", "get_world_size", "is_initialized", "is_available", "is_main_process"),
        *("barrier", "wait_for_everyone", "current_device", "device_count", "as_dict", "to_dict"),
        *("add_scalar", "add_scalars", "add_image", "add_images", "add_text", "add_histogram"),
        *("add_figure", "add_graph", "add_video", "add_embedding", "set_postfix", "set_title"),
        *("set_postfix_str", "set_description", "set_description_str", "set_xlabel", "set_ylabel"),
        *("imshow", "subplot", "subplots", "legend", "xlabel", "ylabel", "axis", "hist", "scatter"),
        *("collect", "key_averages", "table", "Image", "fromarray", "Histogram", "Table", "Figure"),
    }
)
"""Functions and methods that read, or write outside of the training."""

PURE_MODULES = (
    *("time", "datetime", "os.path", "json", "math", "logging", "pickle", "sys", "csv", "pathlib"),
    *("matplotlib", "pylab", "PIL", "wandb", "tqdm", "statistics", "string", "textwrap", "hashlib"),
    *("struct", "base64", "zlib", "gzip", "pprint", "re", "io", "copy", "itertools", "operator"),
    *("seaborn", "plotly", "pandas", "sklearn.metrics", "imageio", "skimage", "torchvision.utils"),
    *("tabulate", "mlflow", "yaml", "numpy", "scipy", "cv2", "shutil", "torch", "functools"),
    *("collections", "os", "platform", "resource", "psutil", "humanize", "prettytable"),
)
"""Modules whose functions do so, except those of ``CHANGING``."""

CHANGING = re.compile(
    r"^(numpy|torch|scipy\.stats)\.random\b|^torch\.(distributed|optim|nn|autograd|multiprocessing"
    r"|utils\.(data|checkpoint)|compile|set_|use_|manual_seed|seed|load|cuda\.(set_|manual_seed"
    r"|seed|amp|graph|empty_cache|reset_)|backends|hub|jit|func|fx)"
    r"|^os\.(chdir|kill|exit|_exit|environ\.|putenv|setpriority|nice|fork)|^sys\.exit"
    r"|^torch\.\w+_$|^functools\.partial"
)
"""Functions of these modules that may change the training."""

HARMLESS_EXCEPTIONS = re.compile(
    r"^torch\.distributed\.(get_rank|get_world_size|is_initialized|is_available|barrier)$"
    r"|^torch\.nn\.functional\.(?!.*dropout)\w*[a-z]$"
)
"""Functions that ``CHANGING`` matches and that change nothing."""

_OBSERVES = frozenset(
    {
        *("print", "log", "logs", "logger", "logging", "save", "saves", "write", "writes"),
        *("writer", "dump", "plot", "plots", "draw", "show", "report", "display", "summary"),
        *("summarize", "checkpoint", "visualize", "visualise", "vis", "savefig", "imsave"),
        *("snapshot", "export"),
        *("debug", "info", "warning", "warn", "error", "progress", "tensorboard", "wandb"),
    }
)
_TRAINS = frozenset(
    {
        *("update", "train", "step", "load", "restore", "reset", "set", "optimize", "adjust"),
        *("sample", "replay", "ema", "sync", "schedule", "lr", "init", "resume", "backward"),
    }
)
_ONLOOKER = re.compile(r"(^|[._])(vis|viz|visdom|writer|logger|pbar|tb|wandb|bar|experiment)$")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def words(name: str) -> set[str]:
    """The words of a name, in lower case."""
    return {word.lower() for word in _WORD.findall(name)}


def is_pure(name: str, qualified: str) -> bool:
    """Whether a call of ``name``, by imports ``qualified``, changes nothing of a training."""
    if qualified and CHANGING.match(qualified):
        return HARMLESS_EXCEPTIONS.match(qualified) is not None
    # A name may say that the call logs, prints, draws or saves, and nothing more.
    if name in PURE or (words(name) & _OBSERVES and not words(name) & _TRAINS):
        return True
    return any(qualified == module or qualified.startswith(f"{module}.") for module in PURE_MODULES)


_LEAVES = (ast.Return, ast.Break, ast.Continue, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await)
_CHANGES = TRAINS | {
    *("requires_grad_", "load_state_dict", "register_buffer", "register_hook", "backward"),
    *("update", "set_epoch", "seed", "manual_seed", "set_rng_state", "shuffle", "choice"),
    *("choices", "append", "appendleft", "extend", "insert", "pop", "popleft", "remove"),
    *("clear", "setdefault", "put", "put_nowait", "send", "reset", "next", "setattr", "exit"),
    *("sample", "randint", "random", "normal", "uniform", "multinomial", "bernoulli", "dropout"),
}
"""Methods and functions that change the training."""
_OF_COLLECTIONS = frozenset({"add", "discard"})
"""They change a set; of a tensor they are harmless, and their result is read."""
_KEEPS = frozenset({"save", "checkpoint", "copy", "copyfile", "dump", "write"})
_SAVES = frozenset({"save", "checkpoint", "dump"})
_BEST = re.compile(r"best|improved", re.I)
_MODES = frozenset({"train", "eval"})
_RANDOM = re.compile(r"rand(n|int|perm)?(_like)?$|.*[a-z0-9]_$")
"""Draws of random numbers, and methods of tensors that work in place."""
_FRESH = (
    *(ast.Dict, ast.List, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.BinOp),
    *(ast.JoinedStr, ast.Constant, ast.Tuple),
)
_MAKES = frozenset(
    {
        *("list", "dict", "set", "sorted", "open", "deepcopy", "clone", "defaultdict", "deque"),
        *("zeros", "ones", "empty", "full", "stack", "cat"),
    }
)
_DEEPEST = 4
_MOST_READERS = 6
"""Statements between what sets a name and what reads it."""


def observers(
    program: Program, statement: ast.stmt, *, may_evaluate: bool = False
) -> list[ast.stmt]:
    """``statement`` and the later ones of its block that read what it sets, none of which changes
    what a training step reads; refused, with the reason, where one may.

    ``may_evaluate``: ``statement`` may switch a model to evaluation and back, and call models."""
    group = _with_readers(program, statement)
    _refuse_best(program, group)
    for part in group:
        _refuse_lasting_mode(program, part)
        for node, depth in reached(program, part):
            why = _change(program, part, node, may_evaluate and part is statement)
            if not why and not depth and isinstance(node, ast.Call) and program.own_functions(node):
                why = f"calls {called_name(node)}(), which may have many effects"
            if why:
                line = getattr(node, "lineno", part.lineno)
                raise PatchRefusedError(f"line {line} may be needed in every step: it {why}")
    return group


def reached(
    program: Program, node: ast.AST, depth: int = _DEEPEST
) -> Iterator[tuple[ast.AST, int]]:
    """All nodes below ``node`` and in the file's functions that it calls, each with the depth of
    calls that is left."""
    for below in ast.walk(node):
        yield below, depth
        if isinstance(below, ast.Call) and depth:
            for function in program.own_functions(below):
                yield from reached(program, function, depth - 1)


def _change(program: Program, statement: ast.stmt, node: ast.AST, may_evaluate: bool) -> str:
    """What ``node`` may change for the training; empty where nothing."""
    in_scope = program.scope(node) is program.scope(statement) if node in program.parents else True
    if isinstance(node, _LEAVES) and in_scope:
        return "leaves the loop"
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        return f"sets {', '.join(node.names)}"
    if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        return "" if _is_local(program, statement, node) else f"sets {ast.unparse(node)}"
    if isinstance(node, ast.Call):
        return _call_effect(program, statement, node, may_evaluate)
    return ""


def may_change(name: str) -> bool:
    """Whether a call of ``name`` changes its object or the training, or draws random numbers."""
    return name in _CHANGES or _RANDOM.match(name) is not None


def _call_effect(program: Program, statement: ast.stmt, call: ast.Call, may_evaluate: bool) -> str:
    name, qualified = called_name(call), qualified_name(program, call.func) or ""
    if qualified.partition(".")[0] in ("os", "shutil") and name in ("remove", "rmtree"):
        return ""
    is_alone = isinstance(program.parents.get(call), ast.Expr)
    changes = may_change(name) or (name in _MODES and not may_evaluate)
    if changes or (name in _OF_COLLECTIONS and is_alone):
        return "" if _is_local(program, statement, call.func) else f"calls {name}()"
    if may_evaluate or program.own_functions(call) or is_pure(name, qualified):
        return ""
    # An object that draws, logs or shows progress by its name, in a call that trains nothing.
    owner = receiver(call)
    if owner is not None and _ONLOOKER.search(ast.unparse(owner)) and not words(name) & _TRAINS:
        return ""
    return f"calls {ast.unparse(call.func)[:40]}(), whose effects are not known"


def _is_local(program: Program, statement: ast.stmt, node: ast.expr) -> bool:
    """Whether the changed object was made by ``statement``, or by the function that it calls."""
    inner, scope = root_of(node), program.scope(node)
    if inner is node or not isinstance(inner, ast.Name) or isinstance(scope, ast.ClassDef):
        return False
    bound = [node for node in program.bindings(inner.id) if program.scope(node) is scope]
    if scope is program.scope(statement):
        inside = set(ast.walk(statement))
        bound = bound if all(node in inside for node in bound) else []
    return bool(bound) and all(_is_fresh(program, node) for node in bound)


def _is_fresh(program: Program, binding: ast.AST) -> bool:
    """Whether ``binding`` is set to a new object."""
    value = assigned_value(program, binding)
    if isinstance(value, ast.Call):
        name = called_name(value)
        module = (qualified_name(program, value.func) or "").partition(".")[0]
        return name[:1].isupper() or name in _MAKES or module in ("hashlib", "io", "collections")
    return isinstance(value, _FRESH)


def _refuse_lasting_mode(program: Program, statement: ast.stmt) -> None:
    """Refuse unless a model that ``statement`` switches to evaluation is switched back by it, or
    by each turn of the loop around it."""
    if "train" in _modes(program, statement) or "eval" not in _modes(program, statement):
        return
    block = program.block(statement)
    others = (mode for other in block if other is not statement for mode in _modes(program, other))
    if "train" not in others:
        raise PatchRefusedError(f"line {statement.lineno} leaves the model in evaluation")


def _refuse_best(program: Program, statements: Sequence[ast.stmt]) -> None:
    """Refuse if ``statements`` keep the best so far: skipped once, it would be lost, as later steps
    are compared with it. What they compute themselves may be kept."""
    own = {name for part in statements for name in names_bound(program, part)}
    for node in (node for part in statements for node, _ in reached(program, part)):
        for test in _deciding(node):
            names = [n for n in ast.walk(test) if isinstance(n, (ast.Name, ast.Attribute))]
            best = [n for n in names if _BEST.search(getattr(n, "id", getattr(n, "attr", "")))]
            if not all(isinstance(n, ast.Name) and n.id in own for n in best):
                raise PatchRefusedError(f"line {test.lineno} keeps what was best so far")


def saves(statement: ast.stmt) -> bool:
    """Whether ``statement`` saves something."""
    return any(words(name) & _SAVES for name in called_names(statement))


def _deciding(node: ast.AST) -> Iterator[ast.expr]:
    """What decides whether ``node`` does something, or whether what it saves is kept."""
    if isinstance(node, (ast.If, ast.IfExp)):
        yield node.test
    elif isinstance(node, ast.Call) and words(called_name(node)) & _KEEPS:
        args = (*node.args, *(keyword.value for keyword in node.keywords))
        yield from (arg for arg in args if isinstance(arg, (ast.Name, ast.Attribute, ast.Compare)))


def _modes(program: Program, statement: ast.stmt) -> set[str]:
    calls = (node for node, _ in reached(program, statement) if isinstance(node, ast.Call))
    methods = (call for call in calls if isinstance(call.func, ast.Attribute))
    return {called_name(call) for call in methods} & _MODES


def _with_readers(program: Program, statement: ast.stmt) -> list[ast.stmt]:
    """``statement`` and the later ones of its block, up to the last that reads what they set."""
    block = program.block(statement)
    first = last = block.index(statement)
    while True:
        group = block[first : last + 1]
        inside = {node for part in group for node in ast.walk(part)}
        end = last
        for part in group:
            for name in sorted(names_bound(program, part)):
                for use in later_reads(program, part, name):
                    if use in inside:
                        continue
                    around = next((s for s in program.ancestors(use) if s in block), None)
                    at = block.index(around) if isinstance(around, ast.stmt) else -1
                    if at < first or at > first + _MOST_READERS:
                        raise PatchRefusedError(f"line {use.lineno} reads {name}, which it sets")
                    end = max(end, at)
        if end == last:
            return group
        last = end
