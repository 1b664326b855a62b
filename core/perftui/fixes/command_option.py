"""A command with another value for one of the script's own options."""

from __future__ import annotations

import re
from collections.abc import Iterable

from perftui.script.options import DeclaredOption
from perftui.script.program import Literal


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
        given = _before_separator(command[begin:])
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
            changed[:0] = self._new(value)
        return (*command[:begin], *changed, *command[at:])

    def _new(self, value: Literal) -> list[str]:
        is_flag = bool(self._option.action)
        return self._flag(value) if is_flag else _valued(self._option.long_flag, value)

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


def _before_separator(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments before a lone ``--``, after which nothing is an option."""
    return arguments[: arguments.index("--")] if "--" in arguments else arguments
