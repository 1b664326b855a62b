"""Carries on the output of processes that a training left behind, once we have ended.

They would get SIGPIPE otherwise, which without us they do not: they hold our output themselves.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence

from perftui.recorder.process.environment import our_module, reap
from perftui.recorder.terminal.relay import Relay, read_some, write_all

NOWHERE = -1


def hand_over(relays: Sequence[Relay]) -> None:
    """Have a process of its own carry what may still come through ``relays``; stops them.

    Raises:
        OSError: it cannot be started.
    """
    left = [relay for relay in relays if relay.stop()]
    if not left:
        return
    pairs = [f"{relay.source}:{NOWHERE if relay.sink is None else relay.sink}" for relay in left]
    carrier = subprocess.Popen(
        [*our_module("perftui.recorder.terminal.late_output"), *pairs],
        stdin=subprocess.DEVNULL,
        pass_fds=[relay.source for relay in left],
    )
    reap(carrier)


def carry(sinks: dict[int, int]) -> None:
    """Carry each source to its sink until all have ended; one whose sink is gone is closed."""
    while sinks:
        ready, _, _ = select.select(list(sinks), [], [])
        for source in ready:
            data = read_some(source)
            if data is None:
                continue
            if not data or (sinks[source] != NOWHERE and not write_all(sinks[source], data)):
                os.close(source)
                del sinks[source]


def main() -> None:
    """Carry between the pairs of descriptors ``source:sink`` that are our arguments."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    pairs = [argument.split(":") for argument in sys.argv[1:]]
    carry({int(source): int(sink) for source, sink in pairs})


if __name__ == "__main__":
    main()
