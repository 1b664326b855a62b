"""How many steps a window may hold, so that saving it does not hold up the training."""

from __future__ import annotations

LONG_WINDOW_NS = 1_000_000_000
"""A loop bound by the processor makes up to 1 event a microsecond; saving one costs 3.6 us. A
window of a second may thus cost seconds, so a first one this long is cut to one step."""

SHORT_STEP_NS = 5_000_000
SHORT_WINDOW_NS = 20_000_000
MOST_STEPS = 10
"""Steps under 5 ms are so short that two of them show mostly noise."""

MOST_BYTES = 8_000_000
"""About 30 000 events, which take about 0.1 s to save."""


def window_steps(wanted: int, step_ns: int, bytes_per_step: int | None) -> int:
    """Steps for the next window: ``wanted``, more where they are very short, fewer where long.

    ``bytes_per_step`` comes from the last window, None before there was one.
    """
    steps = max(wanted, 1)
    if bytes_per_step:
        return max(1, min(_lengthened(steps, step_ns), MOST_BYTES // bytes_per_step))
    if steps * step_ns > LONG_WINDOW_NS:
        return 1
    return _lengthened(steps, step_ns)


def _lengthened(steps: int, step_ns: int) -> int:
    if not 0 < step_ns < SHORT_STEP_NS:
        return steps
    return max(steps, min(MOST_STEPS, -(-SHORT_WINDOW_NS // step_ns)))
