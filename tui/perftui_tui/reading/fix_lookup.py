"""The fixes of findings, worked out on the reading thread and cached."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perftui.diagnosis.model import Finding
from perftui.facts.fact import Facts
from perftui.facts.gpu import has_gpu
from perftui.facts.loader import training_loader
from perftui.facts.loader_work import fetch_cpu
from perftui.facts.machine import machine_use, ranks_here
from perftui.fixes.catalogue import options
from perftui.fixes.launched_script import launched_script
from perftui.fixes.model import FixOption

Key = tuple[object, ...]


class FixLookup:
    """Caches the fixes of each finding: parsing the source costs tens of milliseconds.

    They are worked out anew when what they rest on changes: the finding's fixes, the loader, the
    overrides in force, the cores there are and what they do, or a source file.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[Key, tuple[FixOption, ...]]] = {}

    def of(self, findings: Sequence[Finding], facts: Facts) -> dict[str, tuple[FixOption, ...]]:
        """The options of each of ``findings``, by its rule."""
        return {finding.rule: self._options(finding, facts) for finding in findings}

    def _options(self, finding: Finding, facts: Facts) -> tuple[FixOption, ...]:
        key = _key(finding, facts)
        known = self._known.get(finding.rule)
        if known is not None and known[0] == key:
            return known[1]
        found = options(finding, facts)
        self._known[finding.rule] = (key, found)
        return found


def _key(finding: Finding, facts: Facts) -> Key:
    loader, manifest = training_loader(facts), facts.manifest
    script = launched_script(manifest.command, Path(manifest.cwd)) if manifest else None
    return (
        finding.fixes,
        loader,
        has_gpu(facts),
        ranks_here(facts),
        *_cores(facts),
        repr(manifest.overrides) if manifest else "",
        _modified(Path(loader.file) if loader and loader.file else None),
        _modified(script.path if script else None),
    )


def _cores(facts: Facts) -> Key:
    """What the number of workers rests on.

    These are means that differ in their last digits with every sample: a tenth of a core decides
    nothing, and settles as the run goes on.
    """
    machine = machine_use(facts)
    means = (machine.other_cores, machine.idle_cores, fetch_cpu(facts))
    return (machine.cores, *(None if mean is None else round(mean, 1) for mean in means))


def _modified(file: Path | None) -> int:
    """When the file was last changed, ns; 0 where it is not there."""
    try:
        return file.stat().st_mtime_ns if file else 0
    except OSError:
        return 0
