"""The spool: a small host-local directory through which the agents of a run hand over data.

The run directory may be on a slow shared file system; what the training process touches never is.
The recorder makes the spool, names it to the agents in ``PERFTUI_SPOOL``, moves what arrives
into the run directory, and removes the spool when the training has ended.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

SPOOL_VARIABLE = "PERFTUI_SPOOL"
"""Absolute path of the spool; its presence is what arms the agent."""

OPTIONS_VARIABLE = "PERFTUI_OPTIONS"
"""JSON object of the agent's options, see ``wire.options``."""

OVERRIDES_VARIABLE = "PERFTUI_OVERRIDES"
"""JSON array of overrides, each with ``target``, ``arguments``, ``file``, ``line``, ``fix``."""


class Spool(NamedTuple):
    """Names inside the spool at ``root``.

    No data class: every process of a run imports this, and making one takes three times as long.
    """

    root: Path

    @property
    def control(self) -> Path:
        """The control page, which agents read at step boundaries: see ``wire.control_page``."""
        return self.root / "control"

    def ring(self, pid: int) -> Path:
        """The ring of process ``pid``."""
        return self.root / f"ring-{pid}"

    def rings(self) -> list[Path]:
        """Rings that agents have finished creating."""
        return sorted(path for path in self.root.glob("ring-*") if path.name[5:].isdecimal())

    def notes(self, pid: int) -> Path:
        """Lines of JSON ``{"time", "kind", "duration", "step", "data"}`` by process ``pid``.

        ``time`` is on the wall clock in ns; ``data`` of a ``window`` note holds ``file`` (its name
        in the spool) and ``first_step``, that of a ``process`` note ``python``, ``torch`` and
        ``devices`` (a name for each GPU).
        """
        return self.root / f"notes-{pid}.jsonl"

    def notes_files(self) -> list[Path]:
        """Notes of every process that has written any."""
        found = self.root.glob("notes-*.jsonl")
        return sorted(path for path in found if path.stem[6:].isdecimal())

    def trainers(self) -> frozenset[int]:
        """Processes that train: those with a ring."""
        return frozenset(int(path.name.removeprefix("ring-")) for path in self.rings())

    def workers(self) -> frozenset[int]:
        """Processes that load data for another; those that have ended may be among them."""
        pairs = (path.name.split("-")[1:3] for path in self.root.glob("loader-*-*-*"))
        return frozenset(int(pid) for owner, pid in pairs if pid != owner)

    def worker_pages(self, owner: int) -> list[Path]:
        """Pages of all that makes batches for process ``owner``: ``loader-<owner>-<pid>-<begun>``.

        Agents have finished creating them.
        """
        found = self.root.glob(f"loader-{owner}-*-*")
        return sorted(path for path in found if path.suffix != ".new")
