"""Two runs compared, as text and as plain values."""

from __future__ import annotations

from typing import Any

from perftui import format as fmt
from perftui.experiments.comparison import Comparison
from perftui.run.columns import phase_name

SCHEMA = 1


def text(found: Comparison) -> str:
    """The verdict, the parts of both mean steps, and what the comparison does not show."""
    ratio = f" {found.speedup:.2f}x" if found.speedup else ""
    lines = [f"{found.verdict.value}{ratio}: {found.reason}"]
    lines += [
        f"  {phase_name(one.phase):<18} {fmt.duration(one.before):>10} -> {fmt.duration(one.after)}"
        for one in found.phases
        if one.before or one.after
    ]
    if found.changes:
        lines.append(f"  in force: {', '.join(found.changes)}")
    lines += [f"  {note}" for note in found.notes]
    return "\n".join(lines) + "\n"


def as_object(found: Comparison) -> dict[str, Any]:
    """The same for programs; times are integer nanoseconds."""
    return {
        "schema": SCHEMA,
        "outcome": found.verdict.value,
        "ratio": found.speedup,
        "reason": found.reason,
        "parts_ns": {one.phase: [one.before, one.after] for one in found.phases},
        "changes": list(found.changes),
        "notes": list(found.notes),
    }
