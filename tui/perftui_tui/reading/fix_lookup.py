"""What can be done about findings, worked out on the reading thread and cached."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perftui.diagnosis.model import Finding
from perftui.facts.fact import Facts
from perftui.fixes.catalogue import fixes_of
from perftui.fixes.fix import EnvironmentChange, Fix, offered
from perftui.fixes.model import FixOption
from perftui.script.command_line import script_of


class FixLookup:
    """Caches the options of each fix: parsing the source costs tens of milliseconds.

    They are worked out anew when the change that is proposed is another one, or a source file, the
    command or an override in force has changed.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[object, FixOption]] = {}

    def of(self, findings: Sequence[Finding], facts: Facts) -> dict[str, tuple[FixOption, ...]]:
        """The options of each of ``findings``, by its rule."""
        return {finding.rule: self._options(finding, facts) for finding in findings}

    def _options(self, finding: Finding, facts: Facts) -> tuple[FixOption, ...]:
        found = (self._option(fix, facts) for fix in fixes_of(finding))
        return tuple(option for option in found if option)

    def _option(self, fix: Fix, facts: Facts) -> FixOption | None:
        change, manifest = fix.change(facts), facts.manifest
        if change is None:
            return None
        script = script_of(manifest)
        file = None if isinstance(change, EnvironmentChange) else change.file
        files = (Path(file) if file else None, script.path if script else None)
        in_force = manifest.overrides if manifest else ()
        key = (repr(change), repr(in_force), *map(_modified, files))
        known = self._known.get(fix.id)
        if known is None or known[0] != key:
            known = self._known[fix.id] = (key, offered(fix, change, facts))
        return known[1]


def _modified(file: Path | None) -> int:
    """When the file was last changed, ns; 0 where it is not there."""
    try:
        return file.stat().st_mtime_ns if file else 0
    except OSError:
        return 0
