"""Runs loops, and prints what came of each.

``python run_loops.py NAME...`` runs each loop in a child of its own (a process has one history),
and prints ``NAME PID DIGEST`` for each: the digest is of all weights and of the random state. It
exits with ``EXIT_WITH`` of the environment. With ``CUBLAS_WORKSPACE_CONFIG``, without which cuBLAS
is not deterministic, nothing else on a GPU may be otherwise."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable

import framework_loops
import loops
import torch
from forked import in_children
from loop_parts import DEVICE, Models


def digest(models: Models) -> str:
    """Of all weights and of the random state."""
    sha = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    if DEVICE == "cuda":
        sha.update(torch.cuda.get_rng_state().numpy().tobytes())
    for model in models:
        for one in model.state_dict().values():
            sha.update(one.detach().cpu().numpy().tobytes())
    return sha.hexdigest()[:16]


def found(name: str) -> Callable[[], Models]:
    function: Callable[[], Models] = getattr(loops, name, None) or getattr(framework_loops, name)
    return function


def run(name: str) -> None:
    torch.manual_seed(0)
    print(name, os.getpid(), digest(found(name)()), flush=True)


if __name__ == "__main__":
    if "CUBLAS_WORKSPACE_CONFIG" in os.environ:
        # It imports the compiler: once for all loops.
        torch.use_deterministic_algorithms(True)
    in_children((name for name in sys.argv[1:] if hasattr(loops, name)), run)
    of_frameworks = [name for name in sys.argv[1:] if not hasattr(loops, name)]
    if of_frameworks:
        framework_loops.import_all()
    in_children(of_frameworks, run)
    sys.exit(int(os.environ.get("EXIT_WITH", "0")))
