"""Processes beside the run that held memory of its GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from perftui.facts.fact import Facts, fact
from perftui.facts.samples import noted_of_host
from perftui.format import middle
from perftui.run.manifest import GPU_PROCESSES
from perftui.trace.text import printable

_CELLS = 28


@dataclass(frozen=True)
class GpuProcess:
    """One process; its texts are safe to show."""

    pid: int
    memory: int | None = None
    """Bytes of the GPU; None where the driver does not say."""
    program: str = ""
    """With the script that it runs; empty where it had ended, or may not be looked at."""
    user: str = ""

    @property
    def label(self) -> str:
        """``pid 4123 python serve.py (ada)``."""
        user = f"({self.user})" if self.user else ""
        return " ".join(filter(None, (f"pid {self.pid}", self.program, user)))


@fact
def gpu_processes(facts: Facts) -> Mapping[str, tuple[GpuProcess, ...]]:
    """By what the columns of each GPU of the rank's host begin with, the largest first; empty where
    none was seen, as in a container with numbers of its own."""
    host = noted_of_host(facts, GPU_PROCESSES) if facts.rank else None
    if not isinstance(host, dict):
        return {}
    lists = {prefix: found for prefix, found in host.items() if isinstance(found, list)}
    return {prefix: tuple(_processes(found)) for prefix, found in lists.items()}


def _processes(found: Iterable[Any]) -> Iterable[GpuProcess]:
    for one in found:
        # Another version may write more, or less.
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            memory = one.get("memory")
            yield GpuProcess(
                int(one["pid"]),
                None if memory is None else int(memory),
                middle(printable(one.get("program") or ""), _CELLS),
                printable(one.get("user") or ""),
            )
