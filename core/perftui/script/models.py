"""Models of a file: the one that is wrapped, and those that no optimizer holds."""

from __future__ import annotations

import ast

from perftui.script.names import qualified_name
from perftui.script.program import Loop, PatchRefusedError, Program, assigned_value, called_name
from perftui.script.uses import known_as

WRAPPER = "torch.nn.parallel.DistributedDataParallel"
WRAPPERS = (WRAPPER, "torch.nn.parallel.distributed.DistributedDataParallel")
"""Qualified names of the class, its public one first."""


def wrapper_call(program: Program) -> ast.Call:
    """The only call of DistributedDataParallel of the file.

    Raises:
        PatchRefusedError: there is none, or more than one.
    """
    calls = [call for call in program.calls() if qualified_name(program, call.func) in WRAPPERS]
    if len(calls) != 1:
        raise PatchRefusedError(f"the file has {len(calls)} calls of DistributedDataParallel")
    return calls[0]


def wrapped_model(program: Program, loop: Loop) -> str:
    """What the wrapped model is called in ``loop``: ``model``, or ``self.model``.

    Raises:
        PatchRefusedError: it is not certain that any name there is that object.
    """
    call = wrapper_call(program)
    above = program.parents[call]
    target = above.targets[0] if isinstance(above, ast.Assign) and len(above.targets) == 1 else None
    if isinstance(target, ast.Name):
        return known_as(program, target, program.scope(loop))
    if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
        return _by_attribute(program, loop, target)
    raise PatchRefusedError(f"line {call.lineno} gives the wrapped model no name")


def _by_attribute(program: Program, loop: Loop, made: ast.Attribute) -> str:
    stores = program.attributes(made.attr, ast.Store)
    if any(one.lineno > made.lineno for one in stores):
        raise PatchRefusedError(f"self.{made.attr} is set again after line {made.lineno}")
    if program.owner(made) is not program.owner(loop):
        raise PatchRefusedError(f"line {loop.lineno} is not in the class of self.{made.attr}")
    return f"self.{made.attr}"


_ITSELF = frozenset({"to", "cuda", "cpu", "float", "half", "double", "bfloat16", "train", "eval"})
"""Methods of a module that return it."""

_HARMLESS = _ITSELF | {"zero_grad", "state_dict", "load_state_dict", "training"}
"""What may be used of a module without making its parameters part of something else."""

_TELLING = frozenset({"zero_grad", "state_dict", "load_state_dict", "train", "eval"})
"""Methods that modules have, and little else."""

_BARE = frozenset({"ReLU", "GELU", "SiLU", "Tanh", "Sigmoid", "Softmax", "Flatten", "Identity"})
"""Modules of torch without parameters."""


def untrained_modules(program: Program, loop: Loop) -> list[str]:
    """Names of modules that ``loop`` calls, and that no optimizer of the file holds.

    Raises:
        PatchRefusedError: there are none, or it is not certain what the optimizers hold.
    """
    held = _held(program)
    called = [
        call.func.id
        for node in loop.body
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    ]
    names = [name for name in dict.fromkeys(called) if name not in held]
    found = [name for name in names if _is_module(program, name)]
    for name in found:
        _refuse_shared(program, name)
        _refuse_made_of(program, name)
    if not found:
        raise PatchRefusedError("no module that the loop calls is certainly in no optimizer")
    return found


def _held(program: Program) -> set[str]:
    """Names of the modules whose parameters the optimizers of the file are given, all of them."""
    held: set[str] = set()
    made = [
        call
        for call in program.calls()
        if (name := qualified_name(program, call.func) or "").startswith("torch.optim.")
        and not name.startswith("torch.optim.lr_scheduler.")
        and called_name(call)[:1].isupper()
    ]
    if not made:
        raise PatchRefusedError("no line of the file certainly creates a torch optimizer")
    for call in made:
        held |= _modules_in(call, _first(call))
    for call in program.calls("add_param_group"):
        raise PatchRefusedError(f"line {call.lineno} adds parameters to an optimizer")
    return held


def _first(call: ast.Call) -> ast.expr | None:
    named = (keyword.value for keyword in call.keywords if keyword.arg == "params")
    return call.args[0] if call.args else next(named, None)


def _modules_in(call: ast.Call, given: ast.expr | None) -> set[str]:
    """``{"a", "b"}`` of ``[*a.parameters(), *b.parameters()]``, ``chain(...)`` and the like."""
    if isinstance(given, ast.Starred):
        return _modules_in(call, given.value)
    if isinstance(given, (ast.List, ast.Tuple)):
        return {name for one in given.elts for name in _modules_in(call, one)}
    if isinstance(given, ast.BinOp) and isinstance(given.op, ast.Add):
        return _modules_in(call, given.left) | _modules_in(call, given.right)
    if isinstance(given, ast.Call) and called_name(given) in ("chain", "list"):
        return {name for one in given.args for name in _modules_in(call, one)}
    if isinstance(given, ast.Call) and called_name(given) == "parameters":
        owner = given.func.value if isinstance(given.func, ast.Attribute) else None
        if isinstance(owner, ast.Name):
            return {owner.id}
    raise PatchRefusedError(
        f"line {call.lineno} gives an optimizer something other than all parameters of a module"
    )


def _is_module(program: Program, name: str) -> bool:
    """Whether ``name`` is certain to be a module with parameters, made in the file."""
    call = _made(program, name)
    if call is None:
        return False
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
        return False
    kind = qualified_name(program, call.func) or ""
    plain = kind.rpartition(".")[2]
    if kind.startswith("torch.nn."):
        return plain[:1].isupper() and not plain.endswith("Loss") and plain not in _BARE
    own = _class_of(program, call)
    if len(own) == 1:
        return any(ast.unparse(base).endswith("Module") for base in own[0].bases)
    return bool(_TELLING & {node.attr for node in _attributes(program, name)})


def _made(program: Program, name: str) -> ast.Call | None:
    """The only call whose result ``name`` is, moves of it aside."""
    values = [assigned_value(program, binding) for binding in program.bindings(name)]
    made = [value for value in values if not _is_itself(value, name)]
    return _unmoved(made[0]) if len(made) == 1 and isinstance(made[0], ast.Call) else None


def _unmoved(call: ast.Call) -> ast.Call:
    """The call whose result is moved by ``call`` and others, as by ``.to(device)``."""
    while isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
        if call.func.attr not in _ITSELF:
            break
        call = call.func.value
    return call


def _refuse_made_of(program: Program, name: str) -> None:
    """Nothing where the module is made of nothing but numbers and what the imports give.

    Raises:
        PatchRefusedError: it may be made of a module that is trained.
    """
    made = _made(program, name)
    within: list[ast.AST] = [made, *_class_of(program, made)] if made is not None else []
    for part in within:
        for use in (node for node in ast.walk(part) if isinstance(node, ast.Name)):
            in_class = isinstance(part, ast.ClassDef)
            if isinstance(use.ctx, ast.Load) and not _is_plain(program, use, in_class):
                raise PatchRefusedError(f"line {use.lineno} may create {name} of something trained")


def _class_of(program: Program, made: ast.Call) -> list[ast.ClassDef]:
    classes = [one for one in program.statements() if isinstance(one, ast.ClassDef)]
    return [one for one in classes if one.name == called_name(made)]


def _is_plain(program: Program, use: ast.Name, in_class: bool) -> bool:
    """Whether ``use`` reads a number, an import, a class, an option of the command line, or within
    a class a name of one of its methods."""
    for binding in program.bindings(use.id):
        value = assigned_value(program, binding)
        is_number = value is not None and not any(
            isinstance(node, (ast.Call, ast.Name)) for node in ast.walk(value)
        )
        is_parsed = isinstance(value, ast.Call) and called_name(value) == "parse_args"
        is_defined = isinstance(binding, (ast.alias, ast.ClassDef, ast.FunctionDef))
        is_own = in_class and not isinstance(program.scope(binding), ast.Module)
        if not (is_number or is_parsed or is_defined or is_own):
            return False
    return True


def _is_itself(value: ast.expr | None, name: str) -> bool:
    """``backbone.to(device)`` of ``backbone``."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    owner = value.func.value
    return isinstance(owner, ast.Name) and owner.id == name and value.func.attr in _ITSELF


def _attributes(program: Program, name: str) -> list[ast.Attribute]:
    above = [program.parents[use] for use in program.loads(name)]
    return [node for node in above if isinstance(node, ast.Attribute)]


def _refuse_shared(program: Program, name: str) -> None:
    """Nothing where the module is only called, moved and saved: no other can have its parameters.

    Raises:
        PatchRefusedError: the parameters may be part of something else.
    """
    for use in program.loads(name):
        above = program.parents[use]
        is_called = isinstance(above, ast.Call) and above.func is use
        attribute = above.attr if isinstance(above, ast.Attribute) else ""
        is_plain = isinstance(getattr(above, "ctx", None), ast.Load) and attribute in _HARMLESS
        if not is_called and not is_plain:
            text = ast.unparse(above if attribute else use)
            raise PatchRefusedError(f"line {use.lineno} does more with {name} than call it: {text}")
