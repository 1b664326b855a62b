"""Has the diagnosis of an ended run written, by a process of its own.

What diagnoses stands above the recorder and needs more memory; the recorder stays small while the
training lives, and nobody waits for the diagnosis at its end.
"""

from __future__ import annotations

import subprocess
import threading

from perftui.recorder.process.environment import our_module
from perftui.run.layout import RunLayout

MODULE = "perftui.report"


def have_concluded(layout: RunLayout) -> None:
    """Start writing ``findings.json``; what goes wrong there is in the recorder's log.

    Raises:
        OSError: no process can be started, or the run directory is gone.
    """
    with layout.recorder_log.open("ab") as log:
        process = subprocess.Popen(
            [*our_module(MODULE), str(layout.root.resolve())],
            cwd=layout.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
    # Somebody must hold it and wait for it: else it warns on stderr, where warnings are shown, and
    # stays a zombie.
    threading.Thread(target=process.wait, name="report", daemon=True).start()
