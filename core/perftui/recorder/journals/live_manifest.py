"""The manifest of a run that lives: changed a field at a time, written whole each time."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from perftui.recorder.faults import FaultLog
from perftui.run.manifest import Manifest, overwrite_manifest, write_manifest


class LiveManifest:
    """Holds the manifest at ``path``; safe to change from every thread."""

    def __init__(self, path: Path, manifest: Manifest, faults: FaultLog) -> None:
        self._path = path
        self._manifest = manifest
        self._faults = faults
        self._lock = threading.RLock()

    @property
    def current(self) -> Manifest:
        """The manifest as it stands."""
        return self._manifest

    def update(self, **changes: Any) -> None:
        """Change fields and write; a write that fails is reported, the next one carries it too."""
        with self._lock:
            self._manifest = replace(self._manifest, **changes)
            try:
                write_manifest(self._path, self._manifest)
            except OSError as error:
                self._faults.report(self._path.name, error)
                self._overwrite()

    def note(self, name: str, fact: Any) -> None:
        """Add a fact to ``profile``."""
        with self._lock:
            self.update(profile={**self._manifest.profile, name: fact})

    def _overwrite(self) -> None:
        """How the training ended is worth more than that no reader ever meets half a manifest."""
        try:
            overwrite_manifest(self._path, self._manifest)
        except OSError as error:
            self._faults.report(f"{self._path.name} in place", error)
