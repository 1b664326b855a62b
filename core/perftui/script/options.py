"""The options that a script declares with ``argparse``, read without running it.

Also which expressions hold the parsed command line, and whether anything else sets a value of it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from perftui.script.program import (
    Decided,
    PatchRefusedError,
    Program,
    assigned_value,
    called_name,
    is_literal,
)
from perftui.script.uses import is_only_read

_WORDS: dict[type[object] | None, tuple[str, str]] = {
    int: ("does not take one whole number", "a whole number"),
    float: ("does not take one number", "a number"),
    str: ("does not take one string", "a string"),
    bool: ("is not a flag", "True or False"),
}
"""Words for an option that is not one for a kind of value, and for such a value."""

_FLAGS: dict[str, bool | None] = {
    "store_true": False,
    "store_false": True,
    "BooleanOptionalAction": None,
}
"""Actions of options without a value, and what such an option is by default."""


@dataclass(frozen=True)
class DeclaredOption:
    """One ``add_argument`` call with at least one flag."""

    flags: tuple[str, ...]
    dest: str
    kind: type[object] | None
    """Type of the one value that it takes: int, float or str; bool for a flag; else None."""
    action: str
    """The action of a flag, empty where it takes a value."""
    default: ast.expr | None
    call: ast.Call

    @property
    def long_flag(self) -> str:
        """The flag to write in a command: the first long one, else the first."""
        return next((flag for flag in self.flags if flag.startswith("--")), self.flags[0])

    @property
    def negative(self) -> tuple[str, ...]:
        """The flags that mean no, beside those that mean yes."""
        long = (flag[2:] for flag in self.flags if flag.startswith("--"))
        is_both = self.action == "BooleanOptionalAction"
        return tuple(f"--no-{name}" for name in long) if is_both else ()

    def decided(self, program: Program) -> Decided:
        """What decides the value where a command does not.

        Raises:
            PatchRefusedError: the default is not a literal of the option's kind.
        """
        if self.default is None and self.action:
            return Decided(_FLAGS[self.action], program.span(self.call), "default")
        if self.default is not None and is_literal(self.default):
            now = program.literal(self.default)
            if now.is_a(self.kind):
                return now
        raise PatchRefusedError(f"{self.long_flag} has no default that is {_WORDS[self.kind][1]}")


def declared_options(program: Program) -> list[DeclaredOption]:
    """All options of the file, in the order of the syntax tree."""
    found = (_option(call) for call in program.calls("add_argument"))
    return [option for option in found if option]


def option_behind(program: Program, value: ast.expr, kind: type[object]) -> DeclaredOption | str:
    """The option for a ``kind`` of value that ``args.x`` reads, or why that is not certain.

    Certain is: ``args`` is only ever the result of ``parse_args`` (or a parameter of that name),
    exactly one option of the file stores to ``x``, and nothing else sets it.
    """
    if not isinstance(value, ast.Attribute) or not _is_path(value.value):
        return f"{ast.unparse(value)} is computed"
    name = ast.unparse(value)
    if not is_namespace(program, value.value):
        return f"{ast.unparse(value.value)} may not come from parse_args() in this file"
    if is_set(program, value.attr):
        return f"{name} is set elsewhere in the file"
    options = [option for option in declared_options(program) if option.dest == value.attr]
    if len(options) != 1:
        return f"{len(options)} options of this file store to {name}"
    if options[0].kind is not kind:
        return f"{options[0].long_flag} {_WORDS[kind][0]}"
    return options[0]


_DEEPEST = 3
"""Functions and attributes that hand the parsed command line on."""


def is_namespace(program: Program, value: ast.expr, depth: int = _DEEPEST) -> bool:
    """Whether ``value`` is only ever the result of ``parse_args`` in this file: a name, an
    attribute such as ``self.args``, or a call of a function that returns it."""
    if depth < 0:
        return False
    if isinstance(value, ast.Call):
        return _parses(value) or _returns_parsed(program, value, depth)
    if isinstance(value, ast.Attribute):
        stored = [
            _value(program, node) for node in program.attributes(value.attr, ast.Store, ast.Del)
        ]
        return bool(stored) and all(
            one is not None and is_namespace(program, one, depth - 1) for one in stored
        )
    if not isinstance(value, ast.Name):
        return False
    return _all_parsed(program, program.bindings(value.id), depth)


def is_set(program: Program, attribute: str) -> bool:
    """Whether anything but the parser may set ``attribute`` of some object."""
    if program.calls("exec", "add_subparsers") or program.attributes(attribute, ast.Store, ast.Del):
        return True
    return (
        any(_may_be(call, attribute) for call in program.calls("set_defaults"))
        or any(_sets(call, attribute) for call in program.calls("setattr"))
        or any(not is_only_read(program, call) for call in program.calls("vars"))
        or any(
            not is_only_read(program, node)
            for node in program.nodes
            if isinstance(node, ast.Attribute)
            and node.attr == "__dict__"
            and ast.unparse(node.value) != "self"
        )
    )


def _all_parsed(program: Program, bindings: list[ast.AST], depth: int) -> bool:
    """Whether all of ``bindings`` are of ``parse_args``, parameters aside; one is at least."""
    passed = [one for one in bindings if isinstance(one, ast.arg)]
    parsers = [one for one in bindings if _is_its_own_parser(program, one)]
    rest = [one for one in bindings if one not in passed and one not in parsers]
    values = [_value(program, one) for one in rest]
    return bool(rest) and all(
        isinstance(one, ast.Call) and is_namespace(program, one, depth) for one in values
    )


def _value(program: Program, target: ast.AST) -> ast.expr | None:
    """What ``target`` is set to; of ``args, rest = p.parse_known_args()`` for the first of both."""
    value = assigned_value(program, target)
    above = program.parents.get(target)
    if value is None and isinstance(above, ast.Tuple) and above.elts[:1] == [target]:
        pair = assigned_value(program, above)
        if isinstance(pair, ast.Call) and called_name(pair) == "parse_known_args":
            return pair
    if isinstance(value, ast.Call) and called_name(value) == "parse_known_args":
        return None  # both, in a tuple
    return value


def _parses(value: ast.Call) -> bool:
    return called_name(value) in ("parse_args", "parse_known_args")


def _is_its_own_parser(program: Program, binding: ast.AST) -> bool:
    """Whether ``args = parser()`` is what the next statement, ``args = args.parse_args()``, sets
    anew."""
    statement = program.parents.get(binding)
    if not isinstance(binding, ast.Name) or not isinstance(statement, ast.Assign):
        return False
    block = program.block(statement)
    after = block[block.index(statement) + 1 :][:1]
    value = after[0].value if after and isinstance(after[0], ast.Assign) else None
    if not isinstance(value, ast.Call) or not _parses(value):
        return False
    by = value.func.value if isinstance(value.func, ast.Attribute) else None
    targets = after[0].targets if isinstance(after[0], ast.Assign) else []
    return isinstance(by, ast.Name) and by.id == binding.id and ast.unparse(targets[0]) == by.id


def _returns_parsed(program: Program, call: ast.Call, depth: int) -> bool:
    """Whether ``call`` is of the file's only function of that name, which returns what it has
    parsed and nothing else."""
    functions = program.functions.get(called_name(call), [])
    is_name = isinstance(call.func, ast.Name)
    if len(functions) != 1 or not is_name or program.bindings(functions[0].name) != functions:
        return False
    (function,) = functions
    below = [node for node in ast.walk(function) if program.function(node) is function]
    returns = [node for node in below if isinstance(node, ast.Return)]
    generates = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in below)
    return (
        bool(returns)
        and not generates
        and all(_is_parsed_here(program, function, one.value, depth - 1) for one in returns)
    )


def _is_parsed_here(
    program: Program, function: ast.AST, value: ast.expr | None, depth: int
) -> bool:
    if isinstance(value, ast.Name):
        own = [one for one in program.bindings(value.id) if program.function(one) is function]
        is_passed = any(isinstance(one, ast.arg) for one in own)
        return not is_passed and _all_parsed(program, own, depth)
    return isinstance(value, ast.Call) and called_name(value) == "parse_args"


def _may_be(call: ast.Call, attribute: str) -> bool:
    """Whether a keyword of ``set_defaults`` is ``attribute``, or may be."""
    return any(keyword.arg in (attribute, None) for keyword in call.keywords)


def _sets(call: ast.Call, attribute: str) -> bool:
    """Whether ``setattr`` may set ``attribute``; of an object of its own class it is known."""
    name = call.args[1] if len(call.args) > 1 else None
    if isinstance(name, ast.Constant):
        return name.value == attribute
    of = call.args[0] if call.args else None
    return not (isinstance(of, ast.Name) and of.id in ("self", "cls"))


def _option(call: ast.Call) -> DeclaredOption | None:
    flags = tuple(
        argument.value
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    )
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if len(flags) != len(call.args) or not flags or not flags[0].startswith("-"):
        return None
    action = _flag_action(keywords.get("action"))
    # A required option never has its default.
    default = None if "required" in keywords else keywords.get("default")
    dest = _dest(flags, keywords.get("dest"))
    return DeclaredOption(flags, dest, _kind(keywords, action), action, default, call)


def _flag_action(action: ast.expr | None) -> str:
    named = action.value if isinstance(action, ast.Constant) else None
    if isinstance(action, (ast.Name, ast.Attribute)):
        named = ast.unparse(action).rsplit(".", 1)[-1]
    return str(named) if named in _FLAGS else ""


def _kind(keywords: Mapping[str | None, ast.expr], action: str) -> type[object] | None:
    if {"nargs", "choices", None} & set(keywords) or ("action" in keywords and not action):
        return None
    kind = keywords.get("type")
    named = kind.id if isinstance(kind, ast.Name) else ""
    values = {"int": int, "float": float, "str": str}
    return bool if action else str if kind is None else values.get(named)


def _dest(flags: tuple[str, ...], given: ast.expr | None) -> str:
    """``dest`` as ``argparse`` derives it: the first long flag, else the first; no dashes."""
    if given is not None:
        return str(given.value) if isinstance(given, ast.Constant) else ""
    first = next((flag for flag in flags if flag.startswith("--")), flags[0])
    return first.lstrip("-").replace("-", "_")


def _is_path(value: ast.expr) -> bool:
    """A name, or an attribute of one: ``args``, ``self.args``."""
    return isinstance(value.value if isinstance(value, ast.Attribute) else value, ast.Name)
