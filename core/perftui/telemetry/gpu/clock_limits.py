"""What the bits of ``throttle_reasons`` mean: why a GPU runs below its highest clock."""

from __future__ import annotations

from dataclasses import dataclass

THERMAL = "thermal"
POWER = "power"
IDLE = "idle"
SETTING = "setting"


@dataclass(frozen=True)
class ClockLimit:
    """One reason; ``nvml`` is its name in ``nvmlClocksEventReasons``."""

    bit: int
    words: str
    kind: str
    """``THERMAL``, ``POWER``, ``IDLE`` or ``SETTING``."""
    nvml: str


CLOCK_LIMITS = (
    ClockLimit(0x001, "idle", IDLE, "nvmlClocksEventReasonGpuIdle"),
    ClockLimit(
        *(0x002, "application clocks", SETTING, "nvmlClocksEventReasonApplicationsClocksSetting")
    ),
    ClockLimit(0x004, "power cap", POWER, "nvmlClocksEventReasonSwPowerCap"),
    # NVML names too hot, too much power and the power brake as its causes.
    ClockLimit(0x008, "hardware slowdown", THERMAL, "nvmlClocksEventReasonHwSlowdown"),
    ClockLimit(0x010, "sync boost", SETTING, "nvmlClocksEventReasonSyncBoost"),
    ClockLimit(0x020, "thermal limit", THERMAL, "nvmlClocksEventReasonSwThermalSlowdown"),
    ClockLimit(0x040, "hardware thermal limit", THERMAL, "nvmlClocksEventReasonHwThermalSlowdown"),
    ClockLimit(0x080, "power brake", POWER, "nvmlClocksEventReasonHwPowerBrakeSlowdown"),
    ClockLimit(0x100, "display clocks", SETTING, "nvmlClocksEventReasonDisplayClockSetting"),
)
"""Every reason that NVML documents, lowest bit first."""


def bits_of(kind: str) -> int:
    """All bits of the reasons of one kind."""
    return sum(limit.bit for limit in CLOCK_LIMITS if limit.kind == kind)


def clock_limit_words(reasons: int) -> tuple[str, ...]:
    """The reasons in words, a bit that is not known as its number; empty for none."""
    known = [limit.words for limit in CLOCK_LIMITS if reasons & limit.bit]
    rest = reasons & ~sum(limit.bit for limit in CLOCK_LIMITS)
    return (*known, f"reason {rest:#x}") if rest else tuple(known)
