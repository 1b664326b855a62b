"""Options of a run that contradict each other."""

from __future__ import annotations

from perftui_tui.commands.failure import UsageError
from perftui_tui.commands.line import CommandLine

OF_TORCH = ("shapes", "stacks", "memory", "syncs")
"""What torch's own profiler records besides operators."""

OF_WINDOWS = (*OF_TORCH, "modules", "nvtx", "nsys", "window", "steps")
"""What has no effect without windows."""


def check_options(line: CommandLine, first_step: int | None) -> None:
    """Refuse what cannot be meant together, rather than leave out one half in silence.

    Raises:
        UsageError: it says which options, and which of them to leave out.
    """
    given = (*line.flags, *line.values)
    if "no-profile" in given:
        for name in OF_WINDOWS:
            if name in given:
                raise UsageError(
                    f"--no-profile records no windows, which --{name} is about: leave one out"
                )
    if "nsys" in given:
        for name in OF_TORCH:
            if name in given:
                raise UsageError(
                    f"--{name} is recorded by torch's own profiler, whose place --nsys takes: "
                    "leave one out"
                )
    most = line.number("max-steps")
    if first_step is not None and most is not None and first_step >= most:
        raise UsageError(
            f"--max-steps {most} ends the training before step {first_step} of --steps begins: "
            "let it run longer, or name an earlier step"
        )
