"""The same command with another value for one of the script's own options."""

from __future__ import annotations

from perftui.fixes.patches.declared_options import DeclaredOption


def given(command: tuple[str, ...], begin: int, option: DeclaredOption) -> bool:
    """Whether the arguments from ``begin`` on give ``option``."""
    return any(_gives(argument, option) for argument in _before_separator(command[begin:]))


def with_option(
    command: tuple[str, ...], begin: int, option: DeclaredOption, value: int
) -> tuple[str, ...]:
    """``command`` with ``option`` set to ``value``, in the place and spelling it already has.

    Where it is not given it becomes the first argument, so that neither a subcommand nor
    arguments that the script passes on can swallow it.
    """
    if not given(command, begin, option):
        return (*command[:begin], option.long_flag, str(value), *command[begin:])
    changed: list[str] = []
    arguments = list(command[begin:])
    end = len(_before_separator(tuple(arguments)))
    at = 0
    while at < len(arguments):
        replaced, used = _replaced(arguments[at], option, value, at < end)
        changed += replaced
        at += used
    return (*command[:begin], *changed)


def _before_separator(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments before a lone ``--``, after which nothing is an option."""
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _gives(argument: str, option: DeclaredOption) -> bool:
    name = argument.split("=", 1)[0]
    if name in option.flags:
        return True
    return _short_with_value(argument, option) is not None


def _short_with_value(argument: str, option: DeclaredOption) -> str | None:
    """The flag of ``-j4``, where the option has such a flag."""
    for flag in option.flags:
        if len(flag) == 2 and argument.startswith(flag) and argument[2:].isdecimal():
            return flag
    return None


def _replaced(
    argument: str, option: DeclaredOption, value: int, is_option: bool
) -> tuple[list[str], int]:
    """What stands in place of ``argument``, and how many arguments that uses up."""
    if not is_option or not _gives(argument, option):
        return [argument], 1
    short = _short_with_value(argument, option)
    if short:
        return [f"{short}{value}"], 1
    if "=" in argument:
        return [f"{argument.split('=', 1)[0]}={value}"], 1
    return [argument, str(value)], 2
