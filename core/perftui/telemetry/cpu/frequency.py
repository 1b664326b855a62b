"""The clock of the processors."""

from __future__ import annotations

from perftui.run.journal import Column
from perftui.telemetry.files import SYS, names_in, number, read_or_empty
from perftui.telemetry.pace import Pace

EVERY_SECONDS, MOST_SHARE = 5.0, 0.001
"""Some drivers interrupt each core to ask it."""

COLUMNS = (
    Column(
        *("cpu.frequency", "MHz", "CPU clock", "cpufreq/scaling_cur_freq"),
        "Current clock, mean of the cores, every 5 s.",
    ),
    Column(
        *("cpu.frequency_max", "MHz", "highest CPU clock", "cpufreq/cpuinfo_max_freq"),
        "Highest clock that the hardware supports, mean of the cores.",
    ),
)


class FrequencySource:
    """Clocks by cpufreq, which a virtual machine mostly lacks.

    What ``/proc/cpuinfo`` says in its place is the clock of the time stamp counter there.
    """

    def __init__(self, sys: str = SYS) -> None:
        place = f"{sys}/devices/system/cpu"
        names = [name for name in names_in(place) if name[:3] == "cpu" and name[3:].isdigit()]
        self._cores = [f"{place}/{name}/cpufreq" for name in names]
        self._highest = self._mean("cpuinfo_max_freq")
        self._pace = Pace(EVERY_SECONDS, MOST_SHARE)
        is_known = self._mean("scaling_cur_freq") is not None
        self.columns = COLUMNS if is_known else ()
        self.missing = {} if is_known else {"cpu.frequency": f"no cpufreq in {place}"}

    def sample(self, now: float) -> list[float | None]:
        """Values of ``columns``; the present clock is None but every few seconds."""
        if not self.columns:
            return []
        clock = None
        if self._pace.is_due(now):
            with self._pace.reading(now):
                clock = self._mean("scaling_cur_freq")
        return [clock, self._highest]

    def _mean(self, name: str) -> float | None:
        found = (number(read_or_empty(f"{core}/{name}")) for core in self._cores)
        clocks = [clock for clock in found if clock is not None]
        # It counts kHz.
        return sum(clocks) / len(clocks) / 1000 if clocks else None
