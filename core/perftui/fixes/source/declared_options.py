"""The command-line options that a script declares with ``argparse``, read without running it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from perftui.fixes.source.program import Program, assigned_value, called_name


@dataclass(frozen=True)
class DeclaredOption:
    """One ``add_argument`` call with at least one flag."""

    flags: tuple[str, ...]
    dest: str
    is_integer: bool
    """Declared with ``type=int`` and taking exactly one value."""
    default: ast.Constant | None
    """The default, where it is a literal whole number."""

    @property
    def long_flag(self) -> str:
        """The flag to write in a command: the first long one, else the first."""
        return next((flag for flag in self.flags if flag.startswith("--")), self.flags[0])


def declared_options(program: Program) -> list[DeclaredOption]:
    """All options of the file, in the order of the syntax tree."""
    found = (_option(call) for call in program.calls("add_argument"))
    return [option for option in found if option]


def option_behind(program: Program, value: ast.expr) -> DeclaredOption | str:
    """The integer option that ``args.x`` reads, or why that is not certain.

    Certain is: ``args`` is only ever the result of ``parse_args`` (or a parameter of that name),
    exactly one option of the file stores to ``x``, and nothing else sets it.
    """
    if not isinstance(value, ast.Attribute) or not isinstance(value.value, ast.Name):
        return f"{ast.unparse(value)} is computed"
    name = ast.unparse(value)
    if not _is_namespace(program, value.value.id):
        return f"{value.value.id} is not certain to come from parse_args() in this file"
    if _is_set(program, value.attr):
        return f"{name} is set elsewhere in the file"
    options = [option for option in declared_options(program) if option.dest == value.attr]
    if len(options) != 1:
        return f"{len(options)} options of this file store to {name}"
    if not options[0].is_integer:
        return f"{options[0].long_flag} does not take one whole number"
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
    kind = keywords.get("type")
    takes_one = not {"nargs", "action", "choices", None} & set(keywords)
    return DeclaredOption(
        flags,
        _dest(flags, keywords.get("dest")),
        takes_one and isinstance(kind, ast.Name) and kind.id == "int",
        whole_number(keywords.get("default")),
    )


def _dest(flags: tuple[str, ...], given: ast.expr | None) -> str:
    """As ``argparse`` derives it: the first long flag, else the first, dashes as underscores."""
    if given is not None:
        return str(given.value) if isinstance(given, ast.Constant) else ""
    first = next((flag for flag in flags if flag.startswith("--")), flags[0])
    return first.lstrip("-").replace("-", "_")


def whole_number(node: ast.expr | None) -> ast.Constant | None:
    """``node`` where it is a literal int (``True`` is none)."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node
    return None


def _is_namespace(program: Program, name: str) -> bool:
    bindings = program.bindings(name)
    parsed = [binding for binding in bindings if _is_parse_args(assigned_value(program, binding))]
    passed = [binding for binding in bindings if isinstance(binding, ast.arg)]
    return bool(parsed) and len(parsed) + len(passed) == len(bindings)


def _is_parse_args(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and called_name(value) == "parse_args"


def _is_set(program: Program, attribute: str) -> bool:
    """Whether anything but the parser may set ``attribute`` of some object."""
    if program.calls("setattr", "set_defaults", "add_subparsers", "vars", "exec"):
        return True
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == attribute
        and not isinstance(node.ctx, ast.Load)
        for node in ast.walk(program.tree)
    )
