"""The figures in the row of a GPU: memory, power, temperature, clocks, counters, traffic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perftui_tui.look.format import of_ceiling, rate
from perftui_tui.look.units import format_bytes
from perftui_tui.panes.gpu import clock_limits
from perftui_tui.reading.telemetry import latest

if TYPE_CHECKING:
    from perftui.facts.gpu.own_gpus import GpuProcess, OwnCeilings
    from perftui.run.table import Table

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
    return Figure(f"{text:>13}", share=used / whole)


def _power(card: Card) -> Figure:
    now, limit = card.now("power"), card.now("power_limit")
    if now is None:
        return Figure("")
    text = f"{now:.0f}/{limit:.0f} W" if limit else f"{now:.0f} W"
    return Figure(f"{text:>9}", share=now / limit if limit else None)


def _temperature(card: Card) -> Figure:
    now = card.now("temperature")
    if now is None:
        return Figure("")
    return Figure(f"{now:3.0f} °C", "warn" if now >= HOT else "dim")


def _clock(card: Card) -> Figure:
    """The clock, and what holds it down."""
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


def _nvlink(card: Card) -> Figure:
    return Figure(_both_ways(card, "nvlink", "NVLink"))


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
    """Nothing where memory had no errors that ECC could not correct."""
    errors = card.now("ecc_uncorrected")
    return Figure(f"ECC {errors:.0f} uncorrected" if errors else "", "warn")


FIGURES: tuple[Callable[[Card], Figure], ...] = (
    *(_memory, _power, _temperature, _clock, _errors, _tensor),
    *(_pcie, _held, _others, _nvlink),
)
"""In the order in which they get room."""
