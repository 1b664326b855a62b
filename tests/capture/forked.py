"""Runs each of several trainings in a child of its own, which ends without tidying up."""

from __future__ import annotations

import atexit
import importlib
import os
from collections.abc import Callable, Iterable

import torch


def in_children(names: Iterable[str], run: Callable[[str], object]) -> None:
    """Call ``run`` with each of ``names``, one after the other; prints which of them failed."""
    torch.set_num_threads(1)
    # Once for all: the first optimizer imports it, which takes a second.
    importlib.import_module("torch._dynamo")
    for name in names:
        child = os.fork()
        if child == 0:
            try:
                run(name)
            finally:
                # The end of an interpreter without its half second of tidying up.
                atexit._run_exitfuncs()
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code:
            print(name, child, f"failed: {code}", flush=True)
