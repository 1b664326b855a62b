"""Starts the agent, once torch has been imported."""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path
from typing import Any

from ...wire.spool import read_options
from ..dataloader import worker_times
from ..hooks import watch as hooks
from ..hooks.watch import pass_by
from ..marks import LISTENER
from ..overrides import registry
from ..recording.losses import Losses
from ..recording.session import Session
from ..safety.meter import GUARDED
from ..windows.ranges import Listener


def arm(torch: Any, spool: str) -> Session:
    """Hook into ``torch`` and hand over through the directory ``spool``.

    Raises:
        ValueError: the options or overrides in the environment are malformed.
        AttributeError: this torch lacks a place to hook into.
    """
    options = read_options(os.environ)
    requests = registry.read_overrides(os.environ)
    for function in GUARDED:
        pass_by(torch, function, with_callees=True)
    session = Session(torch, Path(spool), options)
    try:
        registry.watch(torch, session, requests)
        hooks.watch_loaders(torch, session)
        hooks.watch_modules(torch, session)
        hooks.watch_backward(torch, session)
        hooks.watch_optimizers(torch, session)
        hooks.watch_profilers(torch, session)
        hooks.watch_saves(torch, session)
        worker_times.watch(torch, session, options.tracer)
        # The marks of this process look for it.
        sys.modules[LISTENER] = Listener(torch, session)
    except BaseException:
        # Half of the hooks would record wrong figures; those already set now do nothing.
        session.switch_off()
        raise
    if options.spares_files and options.spared:
        from ..safety.spared_files import SparedFiles

        SparedFiles(Path(options.spared)).arm(torch)
    if options.losses:
        Losses(torch, session, options.losses).arm()
    if options.memory_snapshot:
        from ..recording.memory_snapshots import MemorySnapshots

        session.snapshots = MemorySnapshots(torch, Path(spool))
        session.snapshots.arm()
    os.register_at_fork(before=session.before_fork, after_in_child=session.after_fork)
    atexit.register(session.finish)
    return session
