"""Whether stacks can be sampled from outside: who may read a process, and py-spy on a real one."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from perftui.agent.startup.process import PR_SET_PTRACER
from perftui.doctor.files import ROOT, SYS_PTRACE, has_capability, read
from perftui.doctor.row import Row, ok, unknown, warn
from perftui.recorder.stacks.pyspy import REFUSED, find_pyspy

INSTEAD = "source lines are known in profiled windows only"

ALLOW = "--cap-add=SYS_PTRACE"

CHILD = (
    "import ctypes, sys; "
    f"ctypes.CDLL(None).prctl({PR_SET_PTRACER}, ctypes.c_ulong(int(sys.argv[1])), 0, 0, 0); "
    "print(flush=True); sys.stdin.read()"
)
"""Lets our descendants read it, as the agent does, and waits until we end."""

SECONDS = 20.0
"""For the child to start, and for py-spy to read it."""

_LONGEST = 120


@dataclass(frozen=True)
class Attempt:
    """py-spy's attempt at a child process; ``message`` is its own where it failed."""

    worked: bool
    message: str = ""


def scope_row(root: Path = ROOT) -> Row:
    """What ``kernel.yama.ptrace_scope`` allows."""
    scope = read(root, "proc/sys/kernel/yama/ptrace_scope")
    if scope is None:
        if read(root, "proc/self/status") is None:
            return unknown("ptrace", "the system does not report who may read a process")
        return ok("ptrace", "the kernel has no Yama restrictions")
    found = f"kernel.yama.ptrace_scope is {scope}"
    if scope in ("0", "1"):
        return ok("ptrace", found)
    if scope == "2" and has_capability(root, SYS_PTRACE):
        return ok("ptrace", f"{found}, and this process has SYS_PTRACE")
    advice = f"Set it to 1 with sysctl, or start the container with {ALLOW}."
    if scope == "3":
        advice = "It can only be changed by a reboot with another setting."
    return warn("ptrace", f"{found}: {INSTEAD}", advice)


def pyspy_row(command: str | None, attempt: Attempt | None) -> Row:
    """Whether py-spy is installed and reads a process; ``attempt`` is None where none was made."""
    if command is None:
        return warn("py-spy", f"not installed: {INSTEAD}", "pip install py-spy")
    if attempt is None:
        return unknown("py-spy", "not tried: the interpreter does not run")
    if attempt.worked:
        return ok("py-spy", "can read a process of that interpreter")
    if REFUSED in attempt.message:
        return warn(
            "py-spy",
            f"the system does not let it read a process: {INSTEAD}",
            f"Start the container with {ALLOW}; otherwise see the ptrace row.",
        )
    return warn(
        "py-spy",
        f"{attempt.message}: {INSTEAD}",
        "pip install -U py-spy: old versions do not support new versions of Python.",
    )


def try_pyspy(python: str, command: str | None = None) -> Attempt | None:
    """Have py-spy read a child process of ``python``; None without py-spy, or where the child does
    not start."""
    command = command or find_pyspy()
    if command is None:
        return None
    try:
        child = subprocess.Popen(  # noqa: S603 - the interpreter that trains, with our own words
            [python, "-c", CHILD, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
    try:
        if not child.stdout or not child.stdout.readline():
            return None
        return _read(command, child.pid)
    finally:
        child.kill()
        child.communicate()


def _read(command: str, pid: int) -> Attempt:
    words = [command, "dump", "--nonblocking", "--pid", str(pid)]
    try:
        done = subprocess.run(  # noqa: S603 - py-spy, found beside us or on the path
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Attempt(worked=False, message=f"it does not end within {SECONDS:.0f} s")
    except OSError as error:
        return Attempt(worked=False, message=error.strerror or str(error))
    if done.returncode == 0:
        return Attempt(worked=True)
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    message = next((line for line in lines if REFUSED in line), lines[0] if lines else "no reason")
    return Attempt(worked=False, message=message.strip()[:_LONGEST])
