"""The interpreter that trains: its Python, its torch, and what the agent can do in it."""

from __future__ import annotations

import re

from perftui.doctor.interpreter import AskError, Interpreter
from perftui.doctor.row import Row, fails, ok, unknown, warn

OLDEST_TORCH = (2, 4)

ANOTHER = "name the training's interpreter with --python PATH"

NEWEST_API = (3, 10)
"""The compiled part uses the stable Python API of this version."""


def python_row(python: str, found: Interpreter | AskError) -> Row:
    """Whether the interpreter answers at all."""
    if isinstance(found, AskError):
        return fails("python", f"{python} cannot be used: {found}", f"{ANOTHER.capitalize()}.")
    return ok("python", f"{found.version}, {found.executable}")


def torch_row(found: Interpreter, *, has_gpu: bool) -> Row:
    """Whether there is a torch that can be profiled, for this machine; ``has_gpu`` is whether it
    has an NVIDIA card."""
    if found.torch is None:
        return fails(
            "torch", "not installed in that environment", f"Install PyTorch there, or {ANOTHER}."
        )
    version = version_of(found.torch)
    if version is None:
        return unknown("torch", f"its version {found.torch!r} is none that is known")
    oldest = ".".join(map(str, OLDEST_TORCH))
    if version < OLDEST_TORCH:
        return fails("torch", found.torch, f"Install PyTorch {oldest} or newer there.")
    if has_gpu and not found.cuda:
        return warn(
            "torch",
            f"{found.torch} is not built for CUDA, and there is an NVIDIA GPU",
            "Install a CUDA build of PyTorch, or trainings will use the CPU only.",
        )
    built = f", for CUDA {found.cuda}" if found.cuda else ", for the CPU"
    built = f", for ROCm {found.hip}" if found.hip else built
    return ok("torch", f"{found.torch}{built}")


def agent_row(found: Interpreter, *, is_built: bool) -> Row:
    """Whether hooks run compiled; ``is_built`` is whether perftui has the compiled part."""
    if found.compiled:
        return ok("agent", "the compiled hooks are used")
    plain = "the Python hooks are used: the overhead per step is three times as high"
    if is_built and (version_of(found.version) or NEWEST_API) < NEWEST_API:
        return warn("agent", plain, "Train with Python 3.10 or newer.")
    if is_built:
        return warn("agent", plain, "Train with a Python build for this system that has the GIL.")
    return warn(
        "agent", plain, "Reinstall perftui with a C compiler and Python's headers available."
    )


def sitecustomize_row(found: Interpreter) -> Row:
    """Whether the agent gets into the interpreter."""
    other = found.other_sitecustomize
    if found.armed:
        return ok("sitecustomize", f"imported, and {other} after it" if other else "imported")
    if found.ignores_environment:
        return fails(
            "sitecustomize",
            "the interpreter ignores PYTHONPATH",
            "Start it without -E, -I and -S.",
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
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None
