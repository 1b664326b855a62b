"""From the arguments of a tool to words of the command line, which checks their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Kind(Enum):
    """The values an argument takes; by name in JSON Schema."""

    TEXT = "string"
    NUMBER = "integer"
    YES = "boolean"
    WORDS = "array"


class ArgumentError(ValueError):
    """A tool was called with what it does not take; the message says what it does take."""


@dataclass(frozen=True)
class Argument:
    """One argument of a tool."""

    name: str
    about: str
    kind: Kind = Kind.TEXT
    option: str = ""
    """The option of the command line that it sets; where there is none it is a word of it."""
    is_required: bool = False
    choices: tuple[str, ...] = ()
    is_ours: bool = False
    """Whether it is for the server, and no part of the command line."""

    @property
    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        found: dict[str, Any] = {"type": self.kind.value, "description": self.about}
        texts: dict[str, Any] = {"type": "string"}
        of_texts = found if self.kind is Kind.TEXT else texts
        if self.choices:
            of_texts["enum"] = list(self.choices)
        if self.kind is Kind.WORDS:
            found["items"] = texts
        return found

    def checked(self, value: object) -> None:
        """See that ``value`` is of this kind.

        Raises:
            ArgumentError: it is not.
        """
        if self.kind is Kind.YES and not isinstance(value, bool):
            raise ArgumentError(f"{self.name} is true or false, not {value!r}")
        if self.kind is Kind.TEXT and not isinstance(value, str):
            raise ArgumentError(f"{self.name} is a text, not {value!r}")
        if self.kind is Kind.WORDS and not _are_words(value):
            raise ArgumentError(f"{self.name} is a list of words, not {value!r}")
        for word in value if isinstance(value, list) else ():
            if self.choices and word not in self.choices:
                known = ", ".join(self.choices)
                raise ArgumentError(f"{self.name} has no {word!r}; there are {known}")

    def options(self, value: Any) -> list[str]:
        """The options that say ``value``."""
        if self.kind is Kind.YES:
            return [f"--{self.option}"] if value else []
        if self.kind is Kind.WORDS:
            return [f"--{word}" for word in value]
        return [f"--{self.option}={value}"]

    def words(self, value: Any) -> list[str]:
        """The words that say ``value``, none of which the command line takes for an option.

        Raises:
            ArgumentError: it would.
        """
        words = list(value) if self.kind is Kind.WORDS else [value]
        if not words or not words[0]:
            raise ArgumentError(f"{self.name} is empty")
        if words[0].startswith("-") and not (self.kind is Kind.WORDS and words[0] in ("-m", "--")):
            raise ArgumentError(
                f"{self.name} begins with -: of a file {words[0]}, write ./{words[0]}"
            )
        return words


def command_line(
    command: Sequence[str], arguments: Sequence[Argument], given: Mapping[str, Any]
) -> list[str]:
    """The words of the command line: ``command``, then options, then what else was given.

    Raises:
        ArgumentError: an argument is unknown, missing, or of another kind.
    """
    known = {one.name: one for one in arguments}
    for name in given:
        if name not in known:
            raise ArgumentError(f"there is no argument {name!r}; there are {', '.join(known)}")
    options, words = [], []
    for one in arguments:
        value = given.get(one.name)
        if value is None:
            if one.is_required:
                raise ArgumentError(f"{one.name} is missing: {one.about}")
            continue
        one.checked(value)
        if one.is_ours:
            continue
        if one.option:
            options += one.options(value)
        else:
            words += one.words(value)
    return [*command, *options, *words]


def whole_number(given: Mapping[str, Any], name: str, least: int, usual: int) -> int:
    """The number that was given as ``name``, or the usual one.

    Raises:
        ArgumentError: it is no whole number from ``least`` on.
    """
    value = given.get(name)
    if value is None:
        return usual
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ArgumentError(f"{name} needs a whole number from {least} on, not {value!r}")
    return value


def _are_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)
