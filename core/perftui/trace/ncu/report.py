"""The CSV of a binary report, made by the ncu that is installed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from perftui.trace.errors import TraceError
from perftui.trace.text import printable

MAGIC = b"NVR\0"
"""First bytes of an ``.ncu-rep``."""

PATIENCE = 300.0
"""Seconds that ncu may take before it counts as stuck."""

_LONGEST_QUOTE = 300


def csv_of_report(path: Path) -> str:
    """The raw page, with values as they were measured instead of rounded to two digits.

    Raises TraceError where there is no ncu, with the command to run where there is one; where ncu
    cannot read the report, with its output; and after ``PATIENCE``.
    """
    ncu = shutil.which("ncu")
    if ncu is None:
        command = shlex.join(["ncu", "--import", str(path), "--csv", "--page", "raw"])
        raise TraceError(
            f"{printable(str(path))} is a binary report and ncu is not on PATH; where Nsight "
            f"Compute is installed, run: {printable(command)} > kernels.csv; then open kernels.csv"
        )
    # ncu writes lock files and what it unpacks to the directory for temporary files.
    with tempfile.TemporaryDirectory(prefix="perftui-ncu-") as private:
        return _run([ncu, "--import", str(path.resolve()), "--csv", "--page", "raw"], private, path)


def _run(command: list[str], private: str, path: Path) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - a list, of ncu from PATH and a path of ours; no shell
            command,
            cwd=private,
            env={**os.environ, "TMPDIR": private},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TraceError(f"cannot read {path}: ncu took more than {PATIENCE:.0f} s") from error
    except OSError as error:
        raise TraceError(f"cannot read {path}: ncu: {error.strerror or error}") from error
    output = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        words = (done.stderr.decode("utf-8", "replace") + output).strip()
        raise TraceError(
            f"cannot read {path}: ncu ended with {done.returncode}: "
            f"{printable(words)[:_LONGEST_QUOTE]}"
        )
    return output
