"""Which devices of sysfs are hardware."""

from __future__ import annotations

from collections.abc import Iterable

from perftui.telemetry.files import exists


def real_devices(names: Iterable[str], devices: str) -> frozenset[str]:
    """The ``names`` that sysfs ties to hardware; all of them where it ties none.

    Loop, RAM, device-mapper and RAID disks, partitions, bridges and virtual interfaces have no
    ``device`` link. In a container, and outside Linux, nothing may have one.
    """
    known = frozenset(names)
    real = frozenset(name for name in known if exists(f"{devices}/{name}/device"))
    return real or known


class RealDevices:
    """``real_devices``, looked up again where other names have come."""

    def __init__(self, devices: str) -> None:
        self._devices = devices
        self._names: frozenset[str] = frozenset()
        self._real: frozenset[str] = frozenset()

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Those of ``names`` that are hardware."""
        known = frozenset(names)
        if known != self._names:
            self._names, self._real = known, real_devices(known, self._devices)
        return self._real
