"""The interpreter that trains: its Python and torch, what the agent can do in it, and py-spy."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

import perftui
from perftui.agent.startup.process import PR_SET_PTRACER
from perftui.doctor import in_interpreter
from perftui.doctor.row import ROOT, SYS_PTRACE, Row, fails, has_capability, ok, read, unknown, warn
from perftui.recorder.launch import training_environment
from perftui.recorder.pyspy import REFUSED, find_pyspy
from perftui.wire.spool import AgentOptions

SECONDS = 30.0
"""An interpreter on a cold network disk may take long to start."""

COMPILED = Path(perftui.__file__).parent / "agent" / "native" / "_compiled.abi3.so"
"""The agent's compiled part; not there where it could not be compiled."""

_LONGEST = 200
"""Characters of an error message that are kept."""


class Interpreter(msgspec.Struct, frozen=True):
    """What the interpreter tells about itself."""

    version: str
    executable: str
    armed: bool
    """Whether the ``sitecustomize`` of a recording was imported."""
    other_sitecustomize: str | None
    """File of another ``sitecustomize``, which ours imports after itself, or which replaces it."""
    ignores_environment: bool
    """Whether it was started with ``-E``, ``-I`` or ``-S``."""
    compiled: bool
    """Whether it loads the agent's compiled part."""
    torch: str | None
    """Version; empty where torch is there and does not report it, None where it is not there."""
    cuda: str | None
    """CUDA that torch was built for, ``12.8``."""
    hip: str | None
    cupti: tuple[str, ...]
    """CUPTI libraries that came with torch."""


class AskError(Exception):
    """The interpreter did not answer; the message says why."""


def ask(python: str, base: Mapping[str, str] | None = None) -> Interpreter:
    """Run ``python`` as a recorder would, and have it say what it is. Raises AskError if it cannot
    be run, fails, or says something else."""
    with tempfile.TemporaryDirectory(prefix="perftui-doctor-") as spool:
        environment = training_environment(
            os.environ if base is None else base, Path(spool), AgentOptions()
        )
        command = [python, in_interpreter.__file__, str(COMPILED)]
        try:
            done = subprocess.run(  # noqa: S603 - the interpreter that the user trains with
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise AskError(f"it does not answer within {SECONDS:.0f} s") from error
        except OSError as error:
            raise AskError(error.strerror or str(error)) from error
    if done.returncode:
        raise AskError(_last(done.stderr) or f"it exits with code {done.returncode}")
    try:
        return msgspec.json.decode(_last(done.stdout, whole=True), type=Interpreter)
    except msgspec.MsgspecError as error:
        raise AskError("its answer is not what was expected") from error


def _last(output: bytes, *, whole: bool = False) -> str:
    """The last line: others may come from modules that the interpreter imports at its start."""
    lines = output.decode("utf-8", "replace").strip().splitlines()
    last = lines[-1].strip() if lines else ""
    return last if whole else last[:_LONGEST]


OLDEST_TORCH = (2, 4)

ANOTHER = "name the training's interpreter with --python PATH"

NEWEST_API = (3, 10)
"""The compiled part uses the stable Python API of this version."""


def python_row(python: str, answer: Interpreter | AskError) -> Row:
    """Whether the interpreter answers at all."""
    if isinstance(answer, AskError):
        return fails("python", f"{python} cannot be used: {answer}", f"{ANOTHER.capitalize()}.")
    return ok("python", f"{answer.version}, {answer.executable}")


def torch_row(answer: Interpreter, *, has_gpu: bool) -> Row:
    """Whether there is a torch that can be profiled, for this machine; ``has_gpu`` is whether it
    has an NVIDIA card."""
    if answer.torch is None:
        return fails(
            "torch", "not installed in that environment", f"Install PyTorch there, or {ANOTHER}."
        )
    version = version_of(answer.torch)
    if version is None:
        return unknown("torch", f"its version {answer.torch!r} is none that is known")
    oldest = ".".join(map(str, OLDEST_TORCH))
    if version < OLDEST_TORCH:
        return fails("torch", answer.torch, f"Install PyTorch {oldest} or newer there.")
    if has_gpu and not answer.cuda:
        return warn(
            "torch",
            f"{answer.torch} is not built for CUDA, and there is an NVIDIA GPU",
            "Install a CUDA build of PyTorch, or trainings will use the CPU only.",
        )
    build = f", for CUDA {answer.cuda}" if answer.cuda else ", for the CPU"
    build = f", for ROCm {answer.hip}" if answer.hip else build
    return ok("torch", f"{answer.torch}{build}")


def agent_row(answer: Interpreter, *, is_built: bool) -> Row:
    """Whether hooks run compiled; ``is_built`` is whether perftui has the compiled part."""
    if answer.compiled:
        return ok("agent", "the compiled hooks are used")
    plain = "the Python hooks are used: the overhead per step is three times as high"
    if is_built and (version_of(answer.version) or NEWEST_API) < NEWEST_API:
        return warn("agent", plain, "Train with Python 3.10 or newer.")
    if is_built:
        return warn("agent", plain, "Train with a Python build for this system that has the GIL.")
    return warn(
        "agent", plain, "Reinstall perftui with a C compiler and Python's headers available."
    )


def sitecustomize_row(answer: Interpreter) -> Row:
    """Whether the agent gets into the interpreter."""
    other = answer.other_sitecustomize
    if answer.armed:
        return ok("sitecustomize", f"imported, and {other} after it" if other else "imported")
    if answer.ignores_environment:
        return fails(
            "sitecustomize", "the interpreter ignores PYTHONPATH", "Start it without -E, -I and -S."
        )
    if other:
        return fails(
            "sitecustomize",
            f"{other} is imported instead of perftui's",
            "Append its directory to PYTHONPATH instead of prepending it.",
        )
    return fails(
        "sitecustomize",
        "not imported: something removes it from PYTHONPATH",
        "Name the interpreter itself with --python, not a wrapper script.",
    )


def version_of(text: str) -> tuple[int, int] | None:
    """The first two numbers of a version, ``2.13.0+cpu``; None where there are none."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


INSTEAD = "source lines are known in profiled windows only"

ALLOW = "--cap-add=SYS_PTRACE"

CHILD = (
    "import ctypes, sys; "
    f"ctypes.CDLL(None).prctl({PR_SET_PTRACER}, ctypes.c_ulong(int(sys.argv[1])), 0, 0, 0); "
    "print(flush=True); sys.stdin.read()"
)
"""Lets our descendants read the process, as the agent does, and waits until we end."""

PYSPY_SECONDS = 20.0
"""Seconds for the child to start, and for py-spy to read it."""

_LONGEST_MESSAGE = 120


def scope_row(root: Path = ROOT) -> Row:
    """Whether ``kernel.yama.ptrace_scope`` lets py-spy read a process."""
    scope = read(root, "proc/sys/kernel/yama/ptrace_scope")
    if scope is None:
        if read(root, "proc/self/status") is None:
            return unknown("ptrace", "the system does not report who may read a process")
        return ok("ptrace", "the kernel has no Yama restrictions")
    text = f"kernel.yama.ptrace_scope is {scope}"
    if scope in ("0", "1"):
        return ok("ptrace", text)
    if scope == "2" and has_capability(root, SYS_PTRACE):
        return ok("ptrace", f"{text}, and this process has SYS_PTRACE")
    advice = f"Set it to 1 with sysctl, or start the container with {ALLOW}."
    if scope == "3":
        advice = "It can only be changed by a reboot with another setting."
    return warn("ptrace", f"{text}: {INSTEAD}", advice)


def pyspy_row(command: str | None, problem: str | None) -> Row:
    """Whether py-spy is installed and reads a process; ``problem`` is what it said where it did
    not, None where it was not tried."""
    if command is None:
        return warn("py-spy", f"not installed: {INSTEAD}", "pip install py-spy")
    if problem is None:
        return unknown("py-spy", "not tried: the interpreter does not run")
    if not problem:
        return ok("py-spy", "can read a process of that interpreter")
    if REFUSED in problem:
        return warn(
            "py-spy",
            f"the system does not let it read a process: {INSTEAD}",
            f"Start the container with {ALLOW}; otherwise see the ptrace row.",
        )
    return warn(
        "py-spy",
        f"{problem}: {INSTEAD}",
        "pip install -U py-spy: old versions do not support new versions of Python.",
    )


def try_pyspy(python: str, command: str | None = None) -> str | None:
    """Have py-spy read a child process of ``python``: why it cannot, empty where it can; None
    without py-spy, or where the child does not start."""
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


def _read(command: str, pid: int) -> str:
    words = [command, "dump", "--nonblocking", "--pid", str(pid)]
    try:
        done = subprocess.run(  # noqa: S603 - py-spy, found beside us or on the path
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=PYSPY_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it does not end within {PYSPY_SECONDS:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    if done.returncode == 0:
        return ""
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    message = next((line for line in lines if REFUSED in line), lines[0] if lines else "no reason")
    return message.strip()[:_LONGEST_MESSAGE] or "no reason"
