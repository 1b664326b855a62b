"""Asks the interpreter that trains what it is, in the environment of a training."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

import perftui
from perftui.doctor import in_interpreter
from perftui.recorder.process.environment import training_environment
from perftui.wire.options import AgentOptions

SECONDS = 30.0
"""An interpreter on a cold network disk may take long to start."""

COMPILED = Path(perftui.__file__).parent / "agent" / "native" / "_compiled.abi3.so"
"""The agent's compiled part; not there where it could not be compiled."""

_LONGEST = 200
"""Characters of an error message that are kept."""


class Interpreter(msgspec.Struct, frozen=True):
    """What the interpreter said of itself."""

    version: str
    executable: str
    armed: bool
    """Whether the ``sitecustomize`` of a recording was imported."""
    other_sitecustomize: str | None
    """File of another one, which ours imports after it, or which is in its place."""
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
    """Run ``python`` as a recorder would, and have it say what it is.

    Raises:
        AskError: it cannot be run, fails, or says something else.
    """
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
