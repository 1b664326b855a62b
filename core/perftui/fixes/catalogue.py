"""Every fix that is known, by its identifier."""

from __future__ import annotations

from perftui.diagnosis.model import Finding
from perftui.facts.fact import Facts
from perftui.fixes import (
    compilation,
    data_loader,
    gradients,
    optimizer,
    script_overhead,
    switches,
    workers,
)
from perftui.fixes.fix import Fix, option
from perftui.fixes.option import FixOption

_MODULES = (workers, data_loader, optimizer, switches, script_overhead, compilation, gradients)

CATALOGUE = {
    value.id: value
    for module in _MODULES
    for value in vars(module).values()
    if isinstance(value, Fix)
}
"""In the order in which they are written there."""


def fixes_of(finding: Finding) -> tuple[Fix, ...]:
    """The fixes that answer ``finding``, best first; one that a newer version has written into
    ``findings.json`` is left out."""
    return tuple(CATALOGUE[fix] for fix in finding.fixes if fix in CATALOGUE)


def options(finding: Finding, facts: Facts) -> tuple[FixOption, ...]:
    """The fixes of ``finding`` as they can be offered for this run, best first.

    Reads and parses source files, which takes some tenths of a second: never call it where a
    screen waits. A fix that cannot be offered is there all the same, with the reason.
    """
    offers = (option(fix, facts) for fix in fixes_of(finding))
    return tuple(offer for offer in offers if offer)
