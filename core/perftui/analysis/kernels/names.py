"""One spelling for the names of a kernel that ncu and the profiler demangle differently."""

from __future__ import annotations

import re

_ANONYMOUS = re.compile(r"\(anonymous namespace\)|<unnamed>")
_LAMBDA = re.compile(r"\[lambda(\([^\[\]]*\)) \(instance (\d+)\)\]")
_CAST = re.compile(r"\((?:bool|(?:(?:un)?signed )?(?:char|short|int|long|long long))\)(-?\d+)")
_SUFFIX = re.compile(r"(?<![\w.])(-?\d+)(?:ull|ul|ll|u|l)\b", re.IGNORECASE)
_BOOLEAN = re.compile(r"\b(?:true|false)\b")
_CONST_FIRST = re.compile(r"(?:^|(?<=[(<,])|(?<=[(<,] ))const ")
_LOOSE = re.compile(r"(?<![\w]) +| +(?![\w])")
_SPACES = re.compile(r"\s+")

_LONGEST = 32 * 1024
"""Characters; names of real kernels have some thousand. Longer ones are compared as they are."""


def canonical(name: str) -> str:
    """The name with its arguments, without what only one of the two demanglers writes.

    ncu writes ``(int)64``, ``(bool)1``, ``(unsigned long)2``, ``char *``, ``<unnamed>::`` and
    ``[lambda(int) (instance 1)]`` where the profiler writes ``64``, ``true``, ``2ul``, ``char*``,
    ``(anonymous namespace)::`` and ``{lambda(int)#1}``; ``const T *`` is ``T const*`` there. The
    result type ``void`` of a template goes too.
    """
    if len(name) > _LONGEST:
        return name
    text = _SPACES.sub(" ", name.strip()).removeprefix("void ")
    text = _ANONYMOUS.sub("{anonymous}", text)
    # From the inside out: the arguments of a lambda can name another one.
    while (changed := _LAMBDA.sub(r"{lambda\1#\2}", text)) != text:
        text = changed
    text = _CAST.sub(r"\1", text)
    text = _SUFFIX.sub(r"\1", text)
    text = _BOOLEAN.sub(lambda match: "1" if match.group() == "true" else "0", text)
    return _LOOSE.sub("", _const_last(text))


def _const_last(text: str) -> str:
    """``const T*`` as ``T const*``: from the right, so that what is inside a type moves first."""
    for match in reversed(list(_CONST_FIRST.finditer(text))):
        depth, end = 0, match.end()
        while end < len(text) and not (depth == 0 and text[end] in "*&,)>("):
            depth += {"<": 1, "{": 1, ">": -1, "}": -1}.get(text[end], 0)
            end += 1
        kind = text[match.end() : end].strip()
        text = f"{text[: match.start()]}{kind} const{text[end:]}"
    return text


def without_arguments(canonical_name: str) -> str:
    """The canonical name without its last ``(...)``: template arguments show what those are.

    ncu writes the types of a template's parameters as ``T2``, the profiler as they are.
    """
    return _without_last(canonical_name, "(", ")")


def _without_last(name: str, opening: str, closing: str) -> str:
    """``name`` without the brackets that it ends with, and what is in them."""
    if not name.endswith(closing):
        return name
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += {closing: 1, opening: -1}.get(name[at], 0)
        if depth == 0:
            return name[:at] or name
    return name


def base(canonical_name: str) -> str:
    """Only the function's own name, as ``ncu --kernel-name-base function`` prints it."""
    text = _without_last(without_arguments(canonical_name), "<", ">")
    depth = 0
    for at in range(len(text) - 1, 0, -1):
        depth += {">": 1, ")": 1, "}": 1, "<": -1, "(": -1, "{": -1}.get(text[at], 0)
        if depth == 0 and text.startswith("::", at):
            return text[at + 2 :] or text
    return text
