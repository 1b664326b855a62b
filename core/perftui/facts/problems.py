"""What went wrong while a run was recorded, for whoever reads its numbers."""

from __future__ import annotations

from perftui.run.reader import RunSnapshot

MOST = 20
"""Messages that are passed on: a fault in every step would say the same for ever."""

_KINDS = ("error", "warning")


def problems(run: RunSnapshot) -> tuple[str, ...]:
    """Messages of the agent and the recorder, each once with its rank, and lines left out.

    The text is as it was written: make it printable before it is shown.
    """
    found: dict[str, None] = dict.fromkeys(run.manifest.notes)
    several = len(run.ranks) > 1
    for rank in run.ranks:
        prefix = f"rank {rank.rank}: " if several else ""
        events = rank.events
        for kind, data in zip(events["kind"], events["data"], strict=True):
            if kind in _KINDS and isinstance(data, dict) and data.get("message"):
                found[f"{prefix}{data['message']}"] = None
    said = list(found)[:MOST]
    if len(found) > MOST:
        said.append(f"{len(found) - MOST} more messages are in events.jsonl")
    if run.skipped_lines:
        said.append(f"{run.skipped_lines} damaged journal lines were left out")
    return tuple(said)
