"""The command-line options that a script declares with ``argparse``, read without running it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from perftui.fixes.source.namespaces import is_namespace, is_set
from perftui.fixes.source.program import Decided, PatchRefusedError, Program, is_literal

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
