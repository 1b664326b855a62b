"""Programs of NVIDIA's that perftui starts or whose files it reads."""

from __future__ import annotations

import shutil

from perftui.doctor.row import Row, ok, warn
from perftui.recorder.nsys.training import NsysError, find_nsys


def nsys_row() -> Row:
    """Whether Nsight Systems can record windows."""
    if shutil.which("nsys") is None:
        return ok("nsys", "not found; needed only for --nsys and .nsys-rep files")
    try:
        found = find_nsys()
    except NsysError as error:
        return warn("nsys", str(error), "Install a newer Nsight Systems for --nsys.")
    return ok("nsys", f"{found.version}, {found.path}")


def ncu_row() -> Row:
    """Whether Nsight Compute is there to measure kernels."""
    path = shutil.which("ncu")
    return ok("ncu", path or "not found; needed only for --ncu")
