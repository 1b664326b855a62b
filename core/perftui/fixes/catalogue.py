"""Every fix that is known, by its identifier."""

from __future__ import annotations

from collections.abc import Callable

from perftui.diagnosis.model import Finding
from perftui.facts.fact import Facts
from perftui.fixes import loader_persistent, loader_pin, loader_workers
from perftui.fixes.model import FixOption

CATALOGUE: dict[str, Callable[[Facts], FixOption | None]] = {
    loader_workers.FIX: loader_workers.option,
    loader_pin.FIX: loader_pin.option,
    loader_persistent.FIX: loader_persistent.option,
}


def options(finding: Finding, facts: Facts) -> tuple[FixOption, ...]:
    """The fixes of ``finding`` as they can be offered for this run, best first.

    Reads and parses source files, which takes some tenths of a second: never call it where a
    screen waits. A fix that cannot be offered is there all the same and says why not.
    """
    found = (CATALOGUE[fix](facts) for fix in finding.fixes if fix in CATALOGUE)
    return tuple(option for option in found if option)
