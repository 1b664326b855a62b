"""What a row of the table of slow calls says, and which places it is about."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import NamedTuple

from perftui.script.uses import UNKNOWN, Use

LONGEST = 40
"""Letters of the user's code that are repeated in advice; longer expressions become "it"."""

ITEM, STEP, EVALUATION, START = "item", "step", "evaluation", "start"
EACH = f"{ITEM} {STEP} {EVALUATION}"
"""Where a line runs: while a batch is made, in the step, in an evaluation, or before training."""

USUAL = 1 / 3
"""Share of a line's samples from which a call is what the line's time goes to, if its row says no
other: the rest is other calls of the line and its own Python."""


class Source(NamedTuple):
    """Where others describe it."""

    title: str
    address: str


@dataclass(frozen=True)
class Seen:
    """What is known of the place of a finding."""

    uses: tuple[Use, ...] = ()
    frames: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """ns by the frame that the line called, as in ``via`` of stack samples (empty if its own frame
    was innermost, as in functions written in C), and the innermost frame."""
    where: str = STEP
    operators: frozenset[str] = frozenset()
    """The operator of the finding and its callers."""
    on_device: bool = True
    """Whether a GPU computes."""
    oversized: bool | None = None
    """Whether the dataset's files are several times as large as what is made of them; None where
    that is not known."""
    rule: str = ""
    """The rule of the finding."""


@dataclass(frozen=True)
class SlowCall:
    """One row: calls that are slow where they stand."""

    id: str
    slow: str
    """What is slow: ``{call}`` is the function as written, ``{it}`` its object, or of a module's
    function the first argument, ``{x}`` the first argument, ``{line}`` where it is."""
    instead: str
    """What to write instead, with the same names."""
    source: Source
    calls: str = ""
    """Qualified names, with ``*`` for any text; ``random.sample(list)`` by the class of the first
    argument, ``f(,list)`` by that of the second, ``collections.deque.__getitem__`` for an index."""
    frames: str = ""
    """Pattern of frames, or ``VIA > INNER``, that samples must show; without one, of the module
    called, or of that very method if the class of its object is unknown."""
    native: bool = False
    """Whether the functions are written in C: samples then show the user's line itself."""
    operators: str = ""
    """Operators; one that the finding is about is enough."""
    where: str = ""
    """Where it is slow, of the words above; anywhere if empty."""
    given: str = ""
    """Pattern that the text of the call must match."""
    without: str = "(?!)"
    """Pattern that it must not match."""
    within: str = ""
    """Pattern that the text of the function around it must match."""
    of_class: str = ""
    """Pattern that the text of the class around it must match."""
    beside: str = ""
    """Pattern of an innermost frame that some other sample must show."""
    general: bool = False
    """Whether rows about one call count before it."""
    in_loop: bool = False
    """Whether it is only slow in a loop within the step."""
    loop: str = ""
    """Pattern that the kind of the loop around must match, as in ``Turns``; frames do not count."""
    rules: str = ""
    """The rules whose findings it is about; all if empty."""
    waits: bool = False
    """Whether it is only slow where the host waits for a GPU."""
    grown: bool | None = None
    """True where it is only slow if the result replaces an argument, False where only else."""
    oversized: bool | None = None
    """True where it is about such files, False where only if nothing is known of them."""
    least: float = USUAL
    """Share of the line's samples from which it is what the line does."""

    def advice(self, use: Use | None) -> str:
        """What to do, with the names of the line."""
        call, it, x = self.calls.partition(" ")[0].rpartition(".")[2] or "it", "it", "it"
        if use is not None:
            call = _written(getattr(use.node, "func", use.node), use.last)
            it, x = _written(use.object, it), _written(use.first, x)
        line = f"line {use.node.lineno}" if use is not None else "the line"
        turns = vars(use.turns) if use is not None and self.loop else {}
        return f"{self.slow}: {self.instead}".format(call=call, it=it, x=x, line=line, **turns)

    def may_be_called(self, called: frozenset[str]) -> bool:
        """Whether it is about one of these names, or about no call."""
        lasts = [name.partition("(")[0].rpartition(".")[2] for name in self.calls.split()]
        return not lasts or any(fnmatchcase(name, last) for name in called for last in lasts)

    def share(self, seen: Seen) -> tuple[float, Use | None]:
        """Share of the place's time that it is about, 0 to 1, and the use that shows it."""
        is_elsewhere = self.where and seen.where not in self.where.split()
        is_other = self.rules and seen.rule not in self.rules.split()
        if is_elsewhere or is_other or (self.waits and not seen.on_device):
            return 0.0, None
        if self.oversized is not None and seen.oversized is not (self.oversized or None):
            return 0.0, None
        if self.beside and not any(re.search(self.beside, inner) for _, inner in seen.frames):
            return 0.0, None
        called = [(self._share_of(use, seen), use) for use in seen.uses]
        share, use = max(called, key=lambda pair: pair[0], default=(0.0, None))
        if seen.operators.intersection(self.operators.split()):
            return 1.0, use if share else None
        if self.calls or not self.frames or not seen.frames:
            return share, use
        found = sum(ns for frames, ns in seen.frames.items() if self._shows(*frames))
        return found / sum(seen.frames.values()), None

    def _share_of(self, use: Use, seen: Seen) -> float:
        """Share of the line's samples that are in ``use``; 0 if it is not such a call."""
        name = _name_of(self.calls, use.name, use.last, use.given)
        if not name or (self.in_loop and not use.in_loop):
            return 0.0
        text = _text(use.node)
        if not re.search(self.given, text) or re.search(self.without, text):
            return 0.0
        if self.grown not in (None, use.grows) or not re.search(self.within, use.around):
            return 0.0
        if self.of_class and not re.search(self.of_class, use.of_class):
            return 0.0
        if self.loop:
            return 1.0 if use.turns and re.search(self.loop, use.turns.kind) else 0.0
        is_certain = not use.name.startswith(UNKNOWN) or name.startswith("*")
        if not seen.frames:
            return 1.0 if is_certain and not self.frames else 0.0
        package = name.split(".")[0]
        others = {other.last for other in seen.uses} - {use.last}
        found = 0
        for (via, inner), ns in seen.frames.items():
            if self.frames:
                is_it = (is_certain or bool(via)) and self._shows(via, inner)
            elif self.native:
                is_it = is_certain and not via
            else:
                is_it = _is_of(via, package, use.last, others, is_certain)
            found += ns if is_it else 0
        return found / sum(seen.frames.values())

    @cached_property
    def _frames(self) -> re.Pattern[str]:
        return re.compile(self.frames, re.MULTILINE)

    def _shows(self, via: str, inner: str) -> bool:
        return bool(self._frames.search(f"{via}\n{inner}\n{via} > {inner}"))


@lru_cache(1 << 14)  # each poll of a live run asks the same of the same lines
def _name_of(calls: str, name: str, last: str, given: tuple[str, str]) -> str:
    """The first of ``calls`` that a use of that name is, else one that it may be by its last part;
    empty without either."""
    first, second = given
    full = name, f"{name}({first})", f"{name}(,{second})"
    for call in calls.split():
        if call in full or ("*" in call and any(fnmatchcase(each, call) for each in full)):
            return call
    is_unknown = name == f"{UNKNOWN}.{last}"
    return next((c for c in calls.split() if is_unknown and c.rpartition(".")[2] == last), "")


@lru_cache(256)
def _text(node: ast.AST) -> str:
    return ast.unparse(node)


def _is_of(via: str, package: str, last: str, others: set[str], is_certain: bool) -> bool:
    """Whether a line called the method ``last`` of ``package``, by the frame that it called."""
    # Before NumPy 1.25 there is a frame between a call and NumPy's function.
    file, _, function = via.replace("<__array_function__ internals>", "numpy/").rpartition(" ")
    called = function.rpartition(".")[2]
    if not re.search(rf"(?:^|/|<frozen ){re.escape(package)}(?:/|\.py|>)", file):
        return False
    is_alike = package != "torch" and (is_certain or file.startswith(f"{package}/"))
    return called == last or (is_alike and called not in others)


def _written(node: ast.expr | None, otherwise: str) -> str:
    text = ast.unparse(node) if node is not None else ""
    return text if 0 < len(text) <= LONGEST else otherwise
