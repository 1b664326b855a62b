"""The command of a run: its script, the script's options, and the words that set one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from perftui.run.manifest import Manifest
from perftui.script.names import is_only_read
from perftui.script.program import (
    Decided,
    Literal,
    PatchRefusedError,
    Program,
    assigned_value,
    called_name,
    is_literal,
    receiver,
)

_WORDS: dict[type[object] | None, tuple[str, str]] = {
    int: ("does not take one whole number", "a whole number"),
    float: ("does not take one number", "a number"),
    str: ("does not take one string", "a string"),
    bool: ("is not a flag", "True or False"),
}
"""By type: why an option does not take such a value, and what the value is called."""

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
        """The default, as what decides the value; refused where it is no literal of the option's
        kind."""
        if self.default is None and self.action:
            return Decided(_FLAGS[self.action], program.span(self.call), "default")
        if self.default is not None and is_literal(self.default):
            now = program.literal(self.default)
            if now.is_a(self.kind):
                return now
        raise PatchRefusedError(f"{self.long_flag} has no default that is {_WORDS[self.kind][1]}")


def declared_options(program: Program) -> list[DeclaredOption]:
    """All options of the file, in the order of the syntax tree."""
    options = (_option(call) for call in program.calls("add_argument"))
    return [option for option in options if option]


def option_behind(program: Program, value: ast.expr, kind: type[object]) -> DeclaredOption | str:
    """The option for a ``kind`` of value that ``args.x`` reads, or why that is not certain.

    Certain is: ``args`` is only ever the result of ``parse_args`` (or a parameter of that name),
    exactly one option of the file stores to ``x``, and nothing else sets it.
    """
    of = value.value if isinstance(value, ast.Attribute) else None
    # A name, or an attribute of one: ``args``, ``self.args``.
    root = of.value if isinstance(of, ast.Attribute) else of
    if not isinstance(value, ast.Attribute) or not isinstance(root, ast.Name):
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


_PARSES = ("parse_args", "parse_known_args")
_DEEPEST = 3
"""Functions and attributes that hand the parsed command line on."""


def is_namespace(program: Program, value: ast.expr, depth: int = _DEEPEST) -> bool:
    """Whether ``value`` is only ever the result of ``parse_args`` in this file: a name, an
    attribute such as ``self.args``, or a call of a function that returns it."""
    if depth < 0:
        return False
    if isinstance(value, ast.Call):
        return called_name(value) in _PARSES or _returns_parsed(program, value, depth)
    if isinstance(value, ast.Attribute):
        stored = [
            _value(program, node) for node in program.attributes(value.attr, ast.Store, ast.Del)
        ]
        return bool(stored) and all(
            node is not None and is_namespace(program, node, depth - 1) for node in stored
        )
    if not isinstance(value, ast.Name):
        return False
    return _all_parsed(program, program.bindings(value.id), depth)


def is_set(program: Program, attribute: str) -> bool:
    """Whether anything but the parser may set ``attribute`` of some object."""
    if program.calls("exec", "add_subparsers") or program.attributes(attribute, ast.Store, ast.Del):
        return True
    return (
        any(
            keyword.arg in (attribute, None)
            for call in program.calls("set_defaults")
            for keyword in call.keywords
        )
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
    """Whether all ``bindings`` but parameters, one at least, are results of ``parse_args``."""
    passed = [binding for binding in bindings if isinstance(binding, ast.arg)]
    parsers = [binding for binding in bindings if _is_its_own_parser(program, binding)]
    others = [binding for binding in bindings if binding not in passed and binding not in parsers]
    values = [_value(program, binding) for binding in others]
    return bool(others) and all(
        isinstance(value, ast.Call) and is_namespace(program, value, depth) for value in values
    )


def _value(program: Program, target: ast.AST) -> ast.expr | None:
    """The value of ``target``; for ``args`` of ``args, rest = p.parse_known_args()``, that call."""
    value = assigned_value(program, target)
    above = program.parents.get(target)
    if value is None and isinstance(above, ast.Tuple) and above.elts[:1] == [target]:
        pair = assigned_value(program, above)
        if isinstance(pair, ast.Call) and called_name(pair) == "parse_known_args":
            return pair
    if isinstance(value, ast.Call) and called_name(value) == "parse_known_args":
        return None  # both, in a tuple
    return value


def _is_its_own_parser(program: Program, binding: ast.AST) -> bool:
    """Whether ``args = parser()`` is overwritten by the next statement, ``args =
    args.parse_args()``."""
    statement = program.parents.get(binding)
    if not isinstance(binding, ast.Name) or not isinstance(statement, ast.Assign):
        return False
    block = program.block(statement)
    after = block[block.index(statement) + 1 :][:1]
    value = after[0].value if after and isinstance(after[0], ast.Assign) else None
    if not isinstance(value, ast.Call) or called_name(value) not in _PARSES:
        return False
    by = receiver(value)
    targets = after[0].targets if isinstance(after[0], ast.Assign) else []
    return isinstance(by, ast.Name) and by.id == binding.id and ast.unparse(targets[0]) == by.id


def _returns_parsed(program: Program, call: ast.Call, depth: int) -> bool:
    """Whether ``call`` is of the only function of that name, and that returns only parsed
    arguments."""
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
        and all(_is_parsed_here(program, function, node.value, depth - 1) for node in returns)
    )


def _is_parsed_here(
    program: Program, function: ast.AST, value: ast.expr | None, depth: int
) -> bool:
    if isinstance(value, ast.Name):
        local = [node for node in program.bindings(value.id) if program.function(node) is function]
        is_passed = any(isinstance(node, ast.arg) for node in local)
        return not is_passed and _all_parsed(program, local, depth)
    return isinstance(value, ast.Call) and called_name(value) == "parse_args"


def _sets(call: ast.Call, attribute: str) -> bool:
    """Whether this ``setattr`` may set ``attribute``; on ``self`` and ``cls`` it does not."""
    name = call.args[1] if len(call.args) > 1 else None
    if isinstance(name, ast.Constant):
        return name.value == attribute
    owner = call.args[0] if call.args else None
    return not (isinstance(owner, ast.Name) and owner.id in ("self", "cls"))


def _option(call: ast.Call) -> DeclaredOption | None:
    flags = tuple(
        argument.value
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    )
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if len(flags) != len(call.args) or not flags or not flags[0].startswith("-"):
        return None
    value = keywords.get("action")
    name = value.value if isinstance(value, ast.Constant) else None
    if isinstance(value, (ast.Name, ast.Attribute)):
        name = ast.unparse(value).rsplit(".", 1)[-1]
    action = str(name) if name in _FLAGS else ""
    # A required option never has its default.
    default = None if "required" in keywords else keywords.get("default")
    # As ``argparse`` derives it: the first long flag, else the first.
    given = keywords.get("dest")
    long = next((flag for flag in flags if flag.startswith("--")), flags[0])
    dest = long.lstrip("-").replace("-", "_")
    if given is not None:
        dest = str(given.value) if isinstance(given, ast.Constant) else ""
    return DeclaredOption(flags, dest, _kind(keywords, action), action, default, call)


def _kind(keywords: Mapping[str | None, ast.expr], action: str) -> type[object] | None:
    if {"nargs", "choices", None} & set(keywords) or ("action" in keywords and not action):
        return None
    kind = keywords.get("type")
    name = kind.id if isinstance(kind, ast.Name) else ""
    values = {"int": int, "float": float, "str": str}
    return bool if action else str if kind is None else values.get(name)


_PYTHON = re.compile(r"(python|pypy)[\d.]*t?$")
_PYTHON_FLAGS = re.compile(r"-[bBdEiIOPqRsSuvx]+$")
"""Options of Python without a value, alone or in one word, as ``python --help`` lists them."""
_VALUED = re.compile(r"-[bBdEiIOPqRsSuvx]*[WX](.*)$", re.DOTALL)

_LAUNCHER_FLAGS = ("--standalone", "--run-path", "--virtual-local-rank", "--use-env")
_LAUNCHER_VALUED = (
    *("--nnodes", "--nproc-per-node", "--node-rank", "--master-addr", "--master-port"),
    *("--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--rdzv-conf", "--local-addr", "--role"),
    *("--max-restarts", "--monitor-interval", "--start-method", "--event-log-handler"),
    *("--log-dir", "-r", "--redirects", "-t", "--tee", "--local-ranks-filter", "--logs-specs"),
    *("--duplicate-stdout-filters", "--duplicate-stderr-filters", "--numa-binding"),
    *("--signals-to-handle", "--shutdown-timeout"),
)
"""Options of ``torchrun`` (torch 2.13) that come before the script; later ones may be unknown."""


@dataclass(frozen=True)
class LaunchedScript:
    """The script that a command runs."""

    path: Path
    begin: int
    """Number of the word at which the script's own arguments begin."""
    word: int | None = None
    """Number of the word with its path; None where a module is named instead."""


def launched_script(command: tuple[str, ...], cwd: Path) -> LaunchedScript | None:
    """The script that ``command`` runs in ``cwd``; None where that is not certain."""
    if not command:
        return None
    program = Path(command[0]).name
    if program == "torchrun":
        return _by_launcher(command, 1, cwd)
    if _PYTHON.match(program):
        at = 1
        while at < len(command):
            word = command[at]
            valued = _VALUED.match(word)
            if valued or word == "--check-hash-based-pycs":
                at += 1 if valued and valued[1] else 2
            elif _PYTHON_FLAGS.match(word):
                at += 1
            elif word == "-m":
                return _module(command, at + 1, cwd)
            else:
                return None if word.startswith("-") else _by_path(command, at, cwd)
        return None
    # An interpreter by another name, or a script with its interpreter in its first line.
    scripts = [at for at, word in enumerate(command[:2]) if word.endswith(".py")]
    return _by_path(command, scripts[0], cwd) if scripts else None


def script_of(manifest: Manifest | None) -> LaunchedScript | None:
    """The script that a run's command runs; None where that is not certain."""
    return launched_script(manifest.command, Path(manifest.cwd)) if manifest else None


def _module(command: tuple[str, ...], at: int, cwd: Path) -> LaunchedScript | None:
    """The module named at ``at``, where it lies in the current directory, or what it launches."""
    if at >= len(command):
        return None
    if command[at] in ("torch.distributed.run", "torch.distributed.launch"):
        return _by_launcher(command, at + 1, cwd)
    module = cwd.joinpath(*command[at].split("."))
    for path in (module / "__main__.py", module.with_name(f"{module.name}.py")):
        if path.is_file():
            return LaunchedScript(path, at + 1)
    return None


def _by_launcher(command: tuple[str, ...], at: int, cwd: Path) -> LaunchedScript | None:
    is_module = False
    while at < len(command) and command[at].startswith("-"):
        name, equals, _ = command[at].partition("=")
        # The launcher takes both spellings of each long option.
        name = name.replace("_", "-")
        if name in ("-m", "--module"):
            is_module = True
        elif name not in (*_LAUNCHER_FLAGS, *_LAUNCHER_VALUED):
            return None
        at += 2 if name in _LAUNCHER_VALUED and not equals else 1
    if at >= len(command):
        return None
    return _module(command, at, cwd) if is_module else _by_path(command, at, cwd)


def _by_path(command: tuple[str, ...], at: int, cwd: Path) -> LaunchedScript:
    return LaunchedScript(cwd / command[at], at + 1, at)


class CommandOption:
    """How the arguments of a command, read as ``argparse`` reads them, set one option.

    ``declared`` are all options of the script: one of them may be what seems an abbreviation.
    """

    def __init__(
        self,
        command: tuple[str, ...],
        begin: int,
        option: DeclaredOption,
        declared: Iterable[DeclaredOption],
    ) -> None:
        """``begin`` is where in ``command`` the script's own arguments begin."""
        self._command, self._begin, self._option = command, begin, option
        self._own = (*option.flags, *option.negative)
        flags = {flag for other in declared for flag in (*other.flags, *other.negative)}
        self._others = flags - set(self._own)
        words = command[begin:]
        # After a lone ``--`` nothing is an option.
        words = words[: words.index("--")] if "--" in words else words
        self._end = begin + len(words)
        self.is_given = any(self._gives(argument) for argument in words)
        self.unsure = next((argument for argument in words if self._may_give(argument)), None)
        """An argument of several short options that may hold this one, None where there is none."""

    def with_value(self, value: Literal) -> tuple[str, ...] | None:
        """The command with the option set to ``value``, in the place and spelling it already has.

        Where it is not given it becomes the first argument, so that neither a subcommand nor
        arguments that the script passes on can swallow it. A flag stands there or not, as
        ``value`` is True or False. None where it is not certain which arguments give it.
        """
        if self.unsure is not None:
            return None
        command, begin = self._command, self._begin
        changed: list[str] = []
        at = begin
        while at < self._end:
            replaced, used = self._replaced(command[at], value)
            changed += replaced
            at += used
        if not self.is_given:
            option = self._option
            new = self._flag(value) if option.action else _words_of(option.long_flag, value)
            changed[:0] = new
        return (*command[:begin], *changed, *command[at:])

    def _flag(self, value: Literal) -> list[str]:
        """The words that set a flag."""
        if self._option.negative and not value:
            return [self._option.negative[0]]
        return [self._option.long_flag] if value != (self._option.action == "store_false") else []

    def _gives(self, argument: str) -> bool:
        return self._is_name(argument.split("=", 1)[0]) or self._short(argument) is not None

    def _is_name(self, name: str) -> bool:
        """One of the option's flags, or the beginning of one that is no flag of another option.

        Were it the beginning of two options' flags, the script would have refused it.
        """
        if name in self._own:
            return True
        long = [flag for flag in self._own if len(flag) > 2]
        abbreviates = name not in ("-", "--") and any(flag.startswith(name) for flag in long)
        return abbreviates and name.startswith("-") and name not in self._others

    def _short(self, argument: str) -> str | None:
        """The flag of ``-j4``, where the option has such a flag and takes a number."""
        for flag in self._option.flags:
            digits = {int: r"\d+", float: r"[\d.]+"}.get(self._option.kind or str)
            if digits and len(flag) == 2 and re.fullmatch(re.escape(flag) + digits, argument):
                return flag
        return None

    def _may_give(self, argument: str) -> bool:
        """``-vj4``: given if ``-v`` takes no value, which is not known here."""
        letters = "".join(re.escape(flag[1]) for flag in self._option.flags if len(flag) == 2)
        if not letters or self._gives(argument) or argument in self._others:
            return False
        if self._option.kind is int:
            return re.match(rf"-[^-\d=][^=]*?[{letters}]=?\d*$", argument) is not None
        return re.match(rf"-(?![-\d=])[^=]*?[{letters}]", argument) is not None

    def _replaced(self, argument: str, value: Literal) -> tuple[list[str], int]:
        """The words in place of ``argument``, and how many words it uses up."""
        if not self._gives(argument):
            return [argument], 1
        if self._option.action:
            return self._flag(value), 1
        if short := self._short(argument):
            return [f"{short}{value}"], 1
        name, equals, _ = argument.partition("=")
        return _words_of(name, value, equals), 1 if equals else 2


def _words_of(name: str, value: Literal, equals: str = "") -> list[str]:
    """``--name value``, in one word where the value might be taken for an option."""
    text = str(value)
    return [f"{name}={text}"] if equals or text.startswith("-") else [name, text]
