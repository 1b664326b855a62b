"""Short names of the kernels of one table, of which no two that differ read the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

from perftui.analysis.kernels.cpp_name import components
from perftui.analysis.kernels.names import canonical
from perftui.analysis.kernels.short_name import short_name
from perftui.format import middle

_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+")
_LOOP = re.compile(
    r"(?:(vectorized|unrolled)\w*_)?(?:\w+_)?elementwise_kernel(?:_(?:manual_)?(unroll))?"
)

_MOST_ADDED = 40
"""Characters that are added to tell kernels apart; where it takes more they are numbered."""
_DEEPEST = 6
"""How many arguments within arguments are compared."""

_WIDEST = 512
"""Characters of a short name that nothing else limits."""

_Parts = Mapping[str, str]
"""What a name is made of: where in it, and what is there."""


def short_names(names: Iterable[str], width: int = _WIDEST) -> Mapping[str, str]:
    """The short name of each of ``names``, ``width`` characters at most (20 or more); different
    names never share one.

    Where several would, that by which their whole names differ follows in brackets:
    ``elementwise add<float> [vectorized]``. A name that is too long loses its middle.
    """
    alike: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        alike.setdefault(short_name(name), []).append(name)
    found: dict[str, str] = {}
    for short, same in alike.items():
        added = _differences({name: _parts(name) for name in same}) if len(same) > 1 else {}
        for name in same:
            text = " ".join(added.get(name, ()))
            found[name] = f"{short} [{text}]" if 0 < len(text) <= _MOST_ADDED else short
    return _numbered(found, width)


def _parts(name: str) -> _Parts:
    """The parts of the whole name; of a C++ name by their places, so that those of two names can be
    compared, of a name in one word by what is before a number."""
    text = canonical(name)
    found: dict[str, str] = {}
    if "<" not in text and "(" not in text:
        seen: Counter[str] = Counter()
        for word in _WORD.findall(text):
            kind = _NUMBER.sub("#", word)
            seen[kind] += 1
            found[f"{kind} {seen[kind]}"] = word
        return found
    _collect(text, "", 0, found)
    return found


def _collect(text: str, place: str, depth: int, found: dict[str, str]) -> None:
    lambdas = 0
    for component in components(text):
        if component.is_lambda:
            lambdas += 1
            found[f"{place} lambda {lambdas}"] = component.text.rpartition("}")[0].rpartition(")")[
                2
            ]
            continue
        loop = _LOOP.fullmatch(component.base)
        base = (loop[1] or loop[2] or "strided") if loop else component.base
        # What is left at the end is the name itself; scopes stand before it.
        found[f"{place} name"] = base
        if depth < _DEEPEST:
            for at, argument in enumerate(component.arguments):
                _collect(argument.removeprefix("void "), f"{place} {at}", depth + 1, found)


def _differences(names: Mapping[str, _Parts]) -> Mapping[str, list[str]]:
    """The fewest parts by which each name differs from the others: first that in which most differ,
    then among those that share it the next."""
    added: dict[str, list[str]] = {name: [] for name in names}
    waiting = [names]
    while waiting:
        same = waiting.pop()
        places = dict.fromkeys(place for parts in same.values() for place in parts)
        # Of several as good the outermost, which stands before what is within it.
        best = max(places, key=partial(_tells, same), default=None)
        if best is None:
            continue
        groups: dict[str, dict[str, _Parts]] = {}
        for name, parts in same.items():
            groups.setdefault(parts.get(best, ""), {})[name] = parts
        if len(groups) == 1:
            continue
        for part, group in groups.items():
            for name in group:
                added[name] += [part] if part else []
        waiting += [group for group in groups.values() if len(group) > 1]
    return added


def _tells(names: Mapping[str, _Parts], place: str) -> tuple[int, int, bool]:
    """How well the part at ``place`` distinguishes names: by the number of values, then by
    how few names lack it, then by whether it is short."""
    there = [parts.get(place, "") for parts in names.values()]
    return len(set(there)), -there.count(""), max(map(len, there)) <= _MOST_ADDED // 2


def _numbered(found: Mapping[str, str], width: int) -> Mapping[str, str]:
    """The names cut to ``width``; names that are then equal get a number, all but the first."""
    taken: set[str] = set()
    distinct = {}
    for name, short in found.items():
        text, number = middle(short, width), 1
        while text in taken:
            number += 1
            ending = f" #{number}"
            text = f"{middle(short, width - len(ending))}{ending}"
        taken.add(text)
        distinct[name] = text
    return distinct
