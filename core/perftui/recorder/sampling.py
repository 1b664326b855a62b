"""Samples the machine into the telemetry journal of this host."""

from __future__ import annotations

import socket
from typing import Any

from perftui.recorder.faults import FaultLog
from perftui.recorder.live_manifest import LiveManifest
from perftui.recorder.thinning import ThinningSink
from perftui.run.layout import RunLayout
from perftui.run.spool import Spool
from perftui.telemetry.machine import look_around
from perftui.telemetry.processes import Roles
from perftui.telemetry.sampler import Sampler


class MachineSampling:
    """Looks around at the first turn, since asking a driver may take a second, then samples."""

    def __init__(
        self, pid: int, spool: Spool, layout: RunLayout, manifest: LiveManifest, faults: FaultLog
    ) -> None:
        self._pid = pid
        self._spool = spool
        self._layout = layout
        self._manifest = manifest
        self._faults = faults
        self._sampler: Sampler | None = None
        self._journal: ThinningSink | None = None

    def turn(self) -> None:
        """Write one sample."""
        if self._sampler is None or self._journal is None:
            self._sampler, self._journal = self._begin()
        self._journal.append([self._sampler.sample()])

    def finish(self) -> None:
        """Close the journal and end what the sources started."""
        if self._sampler is not None:
            self._sampler.close()
        if self._journal is not None:
            self._journal.close()

    def _roles(self) -> Roles:
        return Roles(self._spool.trainers(), self._spool.workers())

    def _begin(self) -> tuple[Sampler, ThinningSink]:
        machine = look_around(self._pid, roles=self._roles)
        facts: dict[str, Any] = {}
        if machine.no_gpu is not None:
            facts["profile"] = {**self._manifest.current.profile, "no_gpu": machine.no_gpu}
        if machine.gpus and not self._manifest.current.gpus:
            facts["gpus"] = machine.gpus
        self._manifest.update(**facts)
        sampler = Sampler(machine.sources, self._faults.say)
        path = self._layout.telemetry(socket.gethostname())
        return sampler, ThinningSink(path, sampler.columns, self._faults, floats=True)
