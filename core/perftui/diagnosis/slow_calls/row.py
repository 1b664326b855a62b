"""What a row of the table of slow calls says, and which places it is about."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from perftui.script.uses import UNKNOWN, Use

LONGEST = 40
"""Letters of the user's code that are repeated in advice; longer expressions become "it"."""

ITEM, STEP, EVALUATION, START = "item", "step", "evaluation", "start"
"""Where a line runs: while a batch is made, in the step, in an evaluation, or before training."""

_DISPATCH = "<__array_function__ internals>"
"""File of the frame between a call and NumPy's function, before NumPy 1.25."""

USUAL = 1 / 3
"""Share of the line's samples from which a call is what the line's time goes to, if a row says no
other: the rest is what other calls of the line and its own Python take."""


@dataclass(frozen=True)
class Source:
    """Where others describe it."""

    title: str
    address: str


@dataclass(frozen=True)
class Seen:
    """What is known of the place of a finding."""

    uses: tuple[Use, ...] = ()
    """What the line uses, by its text."""
    frames: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """ns by the frame that the line called, as in ``via`` of stack samples (empty if the line's
    own frame was innermost, as in functions written in C), and the innermost frame."""
    where: str = STEP
    operators: frozenset[str] = frozenset()
    """The operator of the finding and its callers."""
    on_device: bool = True
    """Whether a GPU computes."""


@dataclass(frozen=True)
class SlowCall:
    """One row: calls that are slow where they stand."""

    id: str
    slow: str
    """What is slow, with names from the line: ``{call}`` is the call without its arguments,
    ``{it}`` its object, or the first argument of a function, ``{x}`` the first argument, and
    ``{target}`` what the result is assigned to."""
    instead: str
    """What to write instead, with the same names."""
    source: Source
    calls: str = ""
    """Qualified names, with ``*`` for any text; ``random.sample(list)`` if the class of the first
    argument matters, ``collections.deque.__getitem__`` for an index."""
    frames: str = ""
    """Pattern of frames that the samples must show, also ``VIA > INNER``. Without one, a frame of
    the module called, or of that very method if the class of its object is unknown."""
    native: bool = False
    """Whether the functions are written in C: samples then show the user's line itself."""
    operators: str = ""
    """Operators; one that the finding is about is enough."""
    where: str = ""
    """Where it is slow, of the words above; anywhere if empty."""
    given: str = ""
    """Pattern that the text of the call must match."""
    without: str = ""
    """Pattern that it must not match."""
    in_loop: bool = False
    """Whether it is only slow in a loop of its function."""
    waits: bool = False
    """Whether it is only slow where the host waits for a GPU."""
    grown: bool = False
    """Whether it is only slow where the result replaces one of the arguments, which then grows."""
    least: float = USUAL
    """Share of the line's samples from which it is what the line does."""

    def advice(self, use: Use | None) -> str:
        """What to do, with the names of the line."""
        name = self.calls.partition(" ")[0].rpartition(".")[2] or "it"
        names = {"call": name, "it": "it", "x": "it", "target": "the result"}
        if use is not None:
            it = use.first if use.of is None or use.is_function else use.of
            called = use.node.func if isinstance(use.node, ast.Call) else use.node
            names["call"] = _written(called, name)
            names["it"], names["x"] = _written(it, "it"), _written(use.first, "it")
            names["target"] = use.target or "the result"
        return f"{self.slow}: {self.instead}".format_map(names)

    def share(self, seen: Seen) -> tuple[float, Use | None]:
        """Share of the place's time that it is about, 0 to 1, and the use that shows it."""
        is_elsewhere = self.where and seen.where not in self.where.split()
        if is_elsewhere or (self.waits and not seen.on_device):
            return 0.0, None
        called = [(self._time_of(use, seen), use) for use in seen.uses]
        share, use = max(called, key=lambda pair: pair[0], default=(0.0, None))
        if seen.operators.intersection(self.operators.split()):
            return 1.0, use if share else None
        if self.calls or not self.frames or not seen.frames:
            return share, use
        found = sum(ns for frames, ns in seen.frames.items() if self._shows(*frames))
        return found / sum(seen.frames.values()), None

    def _time_of(self, use: Use, seen: Seen) -> float:
        """Share of the line's samples that are in ``use``; 0 if it is not such a call."""
        name = _fitting(use, self.calls.split())
        text = ast.unparse(use.node)
        if not name or (self.in_loop and not use.in_loop) or not re.search(self.given, text):
            return 0.0
        if self.without and re.search(self.without, text):
            return 0.0
        if self.grown and use.target not in map(ast.unparse, _expressions(use.node)):
            return 0.0
        is_certain = not use.name.startswith(UNKNOWN) or name.startswith("*")
        if not seen.frames:
            return 1.0 if is_certain and not self.frames else 0.0
        last = use.name.rpartition(".")[2]
        others = {other.name.rpartition(".")[2] for other in seen.uses} - {last}
        found = 0
        for (via, inner), ns in seen.frames.items():
            if self.frames:
                agrees = (is_certain or bool(via)) and self._shows(via, inner)
            else:
                is_other = via.rpartition(".")[2].rpartition(" ")[2] in others
                agrees = not is_other and self._agrees(name.split(".")[0], last, is_certain, via)
            found += ns if agrees else 0
        return found / sum(seen.frames.values())

    def _shows(self, via: str, inner: str) -> bool:
        return any(re.search(self.frames, each) for each in (via, inner, f"{via} > {inner}"))

    def _agrees(self, package: str, last: str, is_certain: bool, via: str) -> bool:
        """Whether a sample is in the call of ``last`` of the ``package``."""
        if self.native or not via:
            return is_certain and self.native and not via
        file, _, function = via.rpartition(" ")
        modules = rf"(?:^|/|<frozen ){re.escape(package)}(?:/|\.py|>)"
        if not re.search(modules, file.replace(_DISPATCH, "numpy/")):
            return False
        is_same = function.rpartition(".")[2] == last
        return is_same or (package != "torch" and (is_certain or file.startswith(f"{package}/")))


def _fitting(use: Use, names: list[str]) -> str:
    """The first of ``names`` that ``use`` calls, else one that it may call by its last part; empty
    without either."""
    full = use.name, f"{use.name}({use.given})"
    exact = (name for name in names if any(fnmatchcase(each, name) for each in full))
    last = use.name.rpartition(".")[2]
    near = (name for name in names if name.rpartition(".")[2] == last)
    return next(exact, "") or (next(near, "") if use.name == f"{UNKNOWN}.{last}" else "")


def _expressions(node: ast.expr) -> Iterator[ast.expr]:
    return (part for part in ast.walk(node) if isinstance(part, ast.expr))


def _written(node: ast.expr | None, otherwise: str) -> str:
    text = ast.unparse(node) if node is not None else ""
    return text if 0 < len(text) <= LONGEST else otherwise
