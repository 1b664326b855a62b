"""The command of a run: which script it starts, and how it gives an option of that script."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from perftui.run.manifest import Manifest
from perftui.script.options import DeclaredOption
from perftui.script.program import Literal

_PYTHON = re.compile(r"(python|pypy)[\d.]*t?$")
_FLAGS = re.compile(r"-[bBdEiIOPqRsSuvx]+$")
"""Options of Python without a value, alone or in one word, as ``python --help`` lists them."""
_VALUED = re.compile(r"-[bBdEiIOPqRsSuvx]*[WX](.*)$", re.DOTALL)
_HASHES = "--check-hash-based-pycs"

_LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")
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
    """Where in the command its own arguments begin."""
    word: int | None = None
    """Which word of the command is its path; None where a module is named instead."""


def launched_script(command: tuple[str, ...], cwd: Path) -> LaunchedScript | None:
    """The script that ``command`` runs in ``cwd``; None where that is not certain."""
    if not command:
        return None
    program = Path(command[0]).name
    if program == "torchrun":
        return _by_launcher(command, 1, cwd)
    if _PYTHON.match(program):
        return _by_python(command, cwd)
    # An interpreter by another name, or a script with its interpreter in its first line.
    named = [at for at, word in enumerate(command[:2]) if word.endswith(".py")]
    return _by_path(command, named[0], cwd) if named else None


def script_of(manifest: Manifest | None) -> LaunchedScript | None:
    """The script that a run's command runs; None where that is not certain."""
    return launched_script(manifest.command, Path(manifest.cwd)) if manifest else None


def _by_python(command: tuple[str, ...], cwd: Path) -> LaunchedScript | None:
    at = 1
    while at < len(command):
        word = command[at]
        valued = _VALUED.match(word)
        if valued or word == _HASHES:
            at += 1 if valued and valued[1] else 2
        elif _FLAGS.match(word):
            at += 1
        elif word == "-m":
            return _module(command, at + 1, cwd)
        else:
            return None if word.startswith("-") else _by_path(command, at, cwd)
    return None


def _module(command: tuple[str, ...], at: int, cwd: Path) -> LaunchedScript | None:
    """The module named at ``at``, where it lies in the current directory, or what it launches."""
    if at >= len(command):
        return None
    if command[at] in _LAUNCHERS:
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
    """How the arguments of a command, read as ``argparse`` reads them, give one option.

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
        flags = {flag for one in declared for flag in (*one.flags, *one.negative)}
        self._others = flags - set(self._own)
        given = command[begin:]
        # After a lone ``--`` nothing is an option.
        given = given[: given.index("--")] if "--" in given else given
        self._end = begin + len(given)
        self.is_given = any(self._gives(argument) for argument in given)
        self.unsure = next((argument for argument in given if self._may_give(argument)), None)
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
            new = self._flag(value) if option.action else _valued(option.long_flag, value)
            changed[:0] = new
        return (*command[:begin], *changed, *command[at:])

    def _flag(self, value: Literal) -> list[str]:
        """What gives a flag its value."""
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
        """What stands in place of ``argument``, and how many arguments that uses up."""
        if not self._gives(argument):
            return [argument], 1
        if self._option.action:
            return self._flag(value), 1
        if short := self._short(argument):
            return [f"{short}{value}"], 1
        name, equals, _ = argument.partition("=")
        return _valued(name, value, equals), 1 if equals else 2


def _valued(name: str, value: Literal, equals: str = "") -> list[str]:
    """``--name value``, in one word where the value might be taken for an option."""
    text = str(value)
    return [f"{name}={text}"] if equals or text.startswith("-") else [name, text]
