"""Which words of a command are secret, by the names of its options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_SECRET = re.compile(
    r"(?i)token|secret|passw|passphrase|(?<![a-z])pwd|api[-_.]?key|access[-_.]?key|private"
    r"|credential|(?<![a-z])auth(?!or)|bearer|(?:^|[-_.])(?:key|pat|webhook|dsn)$"
)
_TOKENIZER = re.compile(
    r"(?i)tokeni[sz]|(?:max|num|n|min|new|per|vocab|pad|eos|bos)[-_.].*token|tokens"
)
"""Names of options of language models, whose tokens are words."""

_PLAIN = re.compile(r"(?i)[-+]?[\d.]+(?:e[-+]?\d+)?|true|false|none|null|yes|no|on|off|auto")
"""Values that are no secret."""

_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)

_OPAQUE = re.compile(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_+-]{24,}={0,2}")
"""Long words of letters and digits, as keys are."""

HIDDEN = "value"
"""The kind of what stands for a secret."""


def secrets_of(command: Sequence[str]) -> tuple[str, ...]:
    """The values in ``command`` that may be secret: of variables that are set before a program, of
    options that are named like secrets, and words that look like keys."""
    return tuple(dict.fromkeys(_secrets(command)))


def _secrets(command: Sequence[str]) -> Iterator[str]:
    is_before = True
    named = False
    for number, word in enumerate(command):
        name, equals, value = word.partition("=")
        is_set = bool(equals) and _VARIABLE.fullmatch(word) is not None
        is_before = is_before and (number == 0 or is_set or word.startswith("-"))
        if named and not word.startswith("--"):
            yield from _hidden(word)
        elif equals and (_is_secret(name) or (is_before and is_set)):
            yield from _hidden(value)
        elif _OPAQUE.fullmatch(word):
            yield word
        elif equals and _OPAQUE.fullmatch(value):
            yield value
        named = word.startswith("-") and not equals and _is_secret(word)


def _is_secret(name: str) -> bool:
    return _SECRET.search(name) is not None and _TOKENIZER.search(name) is None


def _hidden(value: str) -> Iterator[str]:
    if not _PLAIN.fullmatch(value):
        yield value
