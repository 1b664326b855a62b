"""GPUs: the meter of the one that the training uses, and a row for each card."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from perftui.telemetry.gpu.names import POWER, THERMAL, bits_of, clock_limit_words, gpu_name
from perftui.trace.text import printable
from perftui_tui.charts.cells import block_bar, charted, sparkline
from perftui_tui.look.format import format_bytes, of_ceiling, percent, rate
from perftui_tui.look.rows import Row, Span, crop, row
from perftui_tui.panes.machine import FULL_MEMORY, NO_GPU, ceilings
from perftui_tui.panes.meter import NAME_WIDTH, STYLES, Meter
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.telemetry import STOPPED, gpus, latest, mean, series, table_of

if TYPE_CHECKING:
    from perftui.facts.gpu.cards import GpuProcess, OwnCeilings
    from perftui.run.table import Table

LOW_BELOW = 70.0
"""Per cent of the time; below it the GPU waits (TensorBoard's plugin warns at 50)."""

AS_BUSY = 10.0
"""Per cent: cards that differ by less do the same work, and the first of them stays on screen."""


def gpu(snapshot: Snapshot) -> Meter:
    """The GPU that the training uses: of several, the busiest."""
    from perftui.facts.gpu.cards import own_gpus

    table = table_of(snapshot)
    found = gpus(table)
    own = [prefix for prefix in snapshot.ask(own_gpus) or () if prefix in found]
    known = [prefix for prefix in own or found if series(table, f"{prefix}.utilization")]
    if table is None or not known:
        if own:
            return Meter("GPU", absent=_why_unknown(snapshot, own[0]))
        absent = _why_absent(snapshot, bool(found))
        return Meter("GPU", absent=absent or NO_GPU, is_missing=not absent)
    prefix = _shown(table, known)
    now = latest(table, f"{prefix}.utilization")
    return Meter(
        gpu_name(prefix),
        STOPPED if now is None else f"busy {percent(now)}",
        "" if now is None else busy_word(now),
        series(table, f"{prefix}.utilization"),
        notes=tuple(_notes(snapshot, prefix)),
        total=len(table or ()),
    )


def busy_word(percentage: float) -> str:
    """The word for a GPU that is busy so much of the time."""
    return "LOW" if percentage < LOW_BELOW else "OK"


def _shown(table: Table, prefixes: Sequence[str]) -> str:
    """The first of the GPUs that are about as busy as the busiest one, over the whole run.

    GPUs on which the run's own processes hold memory come before all others: on a shared machine
    the busiest may be somebody else's."""
    own = [prefix for prefix in prefixes if mean(table, f"{prefix}.process_memory")]
    means = {prefix: mean(table, f"{prefix}.utilization") or 0.0 for prefix in own or prefixes}
    highest = max(means.values())
    return next(prefix for prefix, busy in means.items() if busy >= highest - AS_BUSY)


def _notes(snapshot: Snapshot, prefix: str) -> list[str]:
    table = table_of(snapshot)
    notes = []
    used = latest(table, f"{prefix}.memory_used")
    whole = latest(table, f"{prefix}.memory_total")
    if used is not None:
        notes.append(f"mem {format_bytes(used)}" + (f" of {format_bytes(whole)}" if whole else ""))
    notes += _allocator(snapshot)
    for metric, unit in (("power", "W"), ("temperature", "°C")):
        if (now := latest(table, f"{prefix}.{metric}")) is not None:
            notes.append(f"{now:.0f} {unit}")
    if held := clock_limits(table, prefix):
        notes.append(f"clocks limited by {' and '.join(held)}")
    return notes


def clock_limits(table: Table | None, prefix: str) -> tuple[str, ...]:
    """What of heat and power holds the clocks down now, in words; empty for nothing."""
    reasons = latest(table, f"{prefix}.throttle_reasons")
    if reasons is None:
        return ()
    return clock_limit_words(int(reasons) & (bits_of(THERMAL) | bits_of(POWER)))


def _allocator(snapshot: Snapshot) -> list[str]:
    """The peak of memory allocated by PyTorch, and whether it ran short."""
    from perftui.facts.gpu.cards import gpu_memory

    use = snapshot.ask(gpu_memory)
    if use is None:
        return []
    notes = [f"peak {format_bytes(use.peak_allocated)}"]
    if use.retries:
        notes.append(f"{use.retries:,} alloc retries")
    if use.failures:
        notes.append(f"{use.failures:,} failed")
    return notes


def _why_unknown(snapshot: Snapshot, prefix: str) -> str:
    """Why it is not known how busy the training's own GPU is, with what else is known of it."""
    from perftui.facts.gpu.cards import not_sampled

    reasons = snapshot.ask(not_sampled) or {}
    reason = printable(reasons.get(f"{prefix}.utilization", "no answer yet"))
    return ", ".join([f"{gpu_name(prefix)} busy: unknown ({reason})", *_notes(snapshot, prefix)])


def _why_absent(snapshot: Snapshot, is_listed: bool) -> str:
    """Why nothing is known of the GPU; empty where there is none."""
    manifest = snapshot.manifest
    reason = str(manifest.profile.get("no_gpu", "")) if manifest is not None else ""
    if manifest is not None and manifest.gpus and reason:
        return f"the GPU is not sampled ({printable(reason.removeprefix('NVML says: '))})"
    is_there = is_listed or (manifest is not None and manifest.gpus)
    return "no answer from the GPU yet" if is_there else ""


HOT = 83.0
"""Degrees Celsius from which data-centre cards of NVIDIA begin to slow down, by their manuals."""


@dataclass(frozen=True)
class Card:
    """One GPU of the telemetry, and what was measured that it can do."""

    table: Table
    prefix: str
    """What its columns begin with."""
    ceilings: OwnCeilings | None
    others: tuple[GpuProcess, ...] = ()
    """Processes beside the run that hold its memory, the largest first."""

    def now(self, name: str) -> float | None:
        """The present value of a metric; None where it is not known."""
        return latest(self.table, f"{self.prefix}.{name}")


@dataclass(frozen=True)
class Figure:
    """One figure of a card in all rows alike; ``text`` is empty where it is not sampled."""

    text: str
    style: str = "dim"
    share: float | None = None
    """What a small bar before the text is filled to, 0 to 1; None for no bar."""


def _memory(card: Card) -> Figure:
    used, whole = card.now("memory_used"), card.now("memory_total")
    if used is None:
        return Figure("")
    if not whole:
        return Figure(f"mem {format_bytes(used)}")
    gib = 1024**3
    text = f"{used / gib:.1f}/{whole / gib:.0f} GiB"
    if 100 * used < FULL_MEMORY * whole:
        return Figure(f"{text:>13}", share=used / whole)
    return Figure(f"{text:>13} FULL", "warn", used / whole)


def _power(card: Card) -> Figure:
    now, limit = card.now("power"), card.now("power_limit")
    if now is None:
        return Figure("")
    text = f"{now:.0f}/{limit:.0f} W" if limit else f"{now:.0f} W"
    return Figure(f"{text:>9}", share=now / limit if limit else None)


def _temperature(card: Card) -> Figure:
    now = card.now("temperature")
    return Figure("") if now is None else Figure(f"{now:3.0f} °C", "warn" if now >= HOT else "dim")


def _clock(card: Card) -> Figure:
    now = card.now("clock_sm")
    held = clock_limits(card.table, card.prefix)
    style = "warn" if held else "dim"
    return Figure("" if now is None else " ".join((f"{now:4.0f} MHz", *held)), style)


def _tensor(card: Card) -> Figure:
    """Activity by the card's own counters, where it has them."""
    named = {"SM": "sm_activity", "tensor": "tensor_activity", "DRAM": "dram_activity"}
    now = {word: card.now(name) for word, name in named.items()}
    parts = [f"{word} {value:.0f} %" for word, value in now.items() if value is not None]
    most = card.ceilings.device_memory.get(card.prefix) if card.ceilings else None
    if now["DRAM"] is not None and most is not None:
        # Both are shares of what the data sheet says.
        parts[-1] = f"DRAM {now['DRAM']:.0f} of {100 * most:.0f} % measured"
    return Figure("  ".join(parts))


def _pcie(card: Card) -> Figure:
    """What goes over PCIe, beside the most that was measured, and the link as it is now."""
    generation, lanes = card.now("pcie_generation"), card.now("pcie_width")
    link = f" gen{generation:.0f} x{lanes:.0f}" if generation and lanes else ""
    most = card.ceilings.to_device.get(card.prefix) if card.ceilings else None
    return Figure(_both_ways(card, "pcie", f"PCIe{link}", most))


def _both_ways(card: Card, link: str, name: str, most: float | None = None) -> str:
    """As nvidia-smi names them: received by the GPU, of ``most`` where known, and sent."""
    received, sent = card.now(f"{link}_receive"), card.now(f"{link}_transmit")
    if received is None or sent is None:
        return ""
    shown = f"{rate(received):>9}" if most is None else of_ceiling(received, most)
    return f"{name} rx {shown} tx {rate(sent):>9}"


def _held(card: Card) -> Figure:
    """What the run itself holds of the memory, and how many processes hold any."""
    own, holders = card.now("process_memory"), card.now("processes")
    parts = [] if own is None else [f"run {format_bytes(own)}"]
    if holders is not None:
        parts.append(f"{holders:.0f} {'process' if holders == 1 else 'processes'}")
    return Figure("  ".join(parts))


def _others(card: Card) -> Figure:
    """The largest of the processes beside the run that hold memory, by number."""
    if not card.others:
        return Figure("")
    largest = card.others[0]
    memory = f" {format_bytes(largest.memory)}" if largest.memory is not None else ""
    more = f" and {len(card.others) - 1} more" if len(card.others) > 1 else ""
    return Figure(f"{largest.label}{memory}{more}")


def _errors(card: Card) -> Figure:
    errors = card.now("ecc_uncorrected")
    return Figure(f"ECC {errors:.0f} uncorrected" if errors else "", "warn")


FIGURES: tuple[Callable[[Card], Figure], ...] = (
    *(_memory, _power, _temperature, _clock, _errors, _tensor),
    *(_pcie, _held, _others, lambda card: Figure(_both_ways(card, "nvlink", "NVLink"))),
)
"""In the order in which they get room."""


BAR_CELLS = 5
EDGE = "▏"
"""Where a full bar would end."""

LONGEST_HISTORY = 60
SHORTEST_HISTORY = 8


MOST_CARDS = 8
"""Rows that GPUs get; those that the run uses come first."""


def gpu_cards(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """A row for each card, those first that the run uses; why there is none where so."""
    table = table_of(snapshot)
    prefixes = sampled_gpus(table)
    if table is None or not prefixes:
        return [crop(row(("GPU".ljust(NAME_WIDTH), "bold"), (gpu(snapshot).absent, "dim")), cells)]
    shown = prefixes
    if len(shown) > height:
        from perftui.facts.gpu.cards import own_gpus

        # Those that the run uses, or where that is not known that hold memory of it.
        own = snapshot.ask(own_gpus) or [
            prefix for prefix in prefixes if mean(table, f"{prefix}.process_memory")
        ]
        first = sorted(prefixes, key=lambda prefix: prefix not in own)[: max(1, height - 1)]
        shown = [prefix for prefix in prefixes if prefix in first]
    rows = _drawn(snapshot, table, shown, cells)
    left = len(prefixes) - len(shown)
    if left and height > len(rows):
        rows.append(crop(row((f"{'':{NAME_WIDTH}}and {left} more GPUs", "dim")), cells))
    return rows


def sampled_gpus(table: Table | None) -> list[str]:
    """What the columns of each GPU begin with whose use was sampled."""
    return [prefix for prefix in gpus(table) if series(table, f"{prefix}.utilization")]


def _drawn(snapshot: Snapshot, table: Table, prefixes: Sequence[str], cells: int) -> list[Row]:
    use = [_use(table, prefix) for prefix in prefixes]
    left = cells - NAME_WIDTH - max(len(text) for text, _ in use) - 1
    columns, widths = _columns(snapshot, table, prefixes, left - SHORTEST_HISTORY)
    history = max(min(LONGEST_HISTORY, left - sum(width + 2 for width in widths)), 1)
    live = snapshot.phase.is_live
    rows = []
    for at, prefix in enumerate(prefixes):
        text, style = use[at]
        values = series(table, f"{prefix}.utilization")
        shown = charted(values, len(table or ()), history, live=live)
        spans: list[Span] = [(gpu_name(prefix).ljust(NAME_WIDTH), "bold"), (text, style), (" ", "")]
        spans.append((sparkline(shown, history, 100.0), {"bad": "chart-bad"}.get(style, "chart")))
        for column, width in zip(columns, widths, strict=True):
            spans += [("  ", ""), *_figure(column[at], width)]
        rows.append(crop(tuple(spans), cells))
    return rows


def _columns(
    snapshot: Snapshot, table: Table, prefixes: Sequence[str], room: int
) -> tuple[list[list[Figure]], list[int]]:
    """Figures of all cards that fit, and their widths: beside what was measured on this machine,
    unless a figure had to go for that."""
    from perftui.facts.gpu.cards import gpu_processes

    def of(known: OwnCeilings | None) -> tuple[list[list[Figure]], list[int]]:
        cards = [Card(table, prefix, known, others.get(prefix, ())) for prefix in prefixes]
        columns = [[read(card) for card in cards] for read in FIGURES]
        columns = [column for column in columns if any(figure.text for figure in column)]
        widths = [
            max(len(figure.text) for figure in column)
            + (BAR_CELLS + len(EDGE) if any(figure.share is not None for figure in column) else 0)
            for column in columns
        ]
        fitting = sum(used <= room for used in accumulate(width + 2 for width in widths))
        return columns[:fitting], widths[:fitting]

    others = snapshot.ask(gpu_processes) or {}
    plain, known = of(None), ceilings(snapshot)
    measured = plain if known is None else of(known)
    return measured if len(measured[1]) >= len(plain[1]) else plain


def _figure(figure: Figure, width: int) -> list[Span]:
    if figure.share is None:
        return [(figure.text.ljust(width), figure.style)]
    style = "chart-warn" if figure.style == "warn" else "chart"
    text = figure.text.ljust(width - BAR_CELLS - len(EDGE))
    return [(block_bar(figure.share, BAR_CELLS), style), (EDGE, "dim"), (text, figure.style)]


def _use(table: Table, prefix: str) -> Span:
    now = latest(table, f"{prefix}.utilization")
    if now is None:
        return (STOPPED, "dim")
    word = busy_word(now)
    return (f"{percent(now):>5} {word:<3}", STYLES[word])
