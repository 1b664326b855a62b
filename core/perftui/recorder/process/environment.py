"""How the training is started, in the user's environment and ours, and how modules of ours are."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

import perftui
from perftui.run.layout import RunLayout
from perftui.run.manifest import Override
from perftui.wire.spool import OPTIONS_VARIABLE, OVERRIDES_VARIABLE, SPOOL_VARIABLE, AgentOptions

INJECT = Path(perftui.__file__).parent / "agent" / "inject"
"""Holds only the ``sitecustomize`` that loads the agent into every Python of the run."""

LINKED = "inject"
"""The directory in the spool with a link to that file. What Python compiles it to lies beside the
link, where it can be written whatever is read-only or unwanted where perftui is installed."""

ENVIRONMENT = "environment"
"""Target of the overrides that are variables."""

SOURCE = "source"
"""Target of the overrides that run a patched copy in place of a file."""

PATCHED_MAIN = Path(perftui.__file__).parent / "agent" / "startup" / "patched_main.py"
"""Runs the script in its place, with the patched copy."""


def training_environment(
    base: Mapping[str, str],
    spool: Path,
    options: AgentOptions,
    overrides: Sequence[Override] = (),
) -> dict[str, str]:
    """``base`` with the agent first on PYTHONPATH, its own variables, and the overrides.

    An override of a variable with None removes it.

    Raises:
        OSError: the spool cannot be written.
    """
    environment = dict(base)
    path = environment.get("PYTHONPATH")
    # An empty part of PYTHONPATH would mean the current directory.
    environment["PYTHONPATH"] = os.pathsep.join([_link(spool), *([path] if path else [])])
    environment[SPOOL_VARIABLE] = str(spool)
    environment[OPTIONS_VARIABLE] = options.encode()
    # All of them: the agent notes of each what became of it.
    environment[OVERRIDES_VARIABLE] = msgspec.json.encode(overrides).decode()
    for override in overrides:
        if override.target == ENVIRONMENT:
            _apply(environment, override)
    return environment


def patched_command(command: Sequence[str], overrides: Sequence[Override]) -> tuple[str, ...]:
    """``command`` with what runs the patched copy where it names its script, if there is one."""
    words = {one.arguments["word"] for one in overrides if one.target == SOURCE}
    return tuple(str(PATCHED_MAIN) if at in words else word for at, word in enumerate(command))


def _link(spool: Path) -> str:
    directory = spool / LINKED
    directory.mkdir(exist_ok=True)
    for file in INJECT.glob("*.py"):
        link = directory / file.name
        if not link.is_symlink():
            link.symlink_to(file)
    return str(directory)


def _apply(environment: dict[str, str], override: Override) -> None:
    for name, value in override.arguments.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = str(value)


def our_module(name: str) -> list[str]:
    """Our interpreter running ``name``, kept from importing what lies in the current directory or,
    where we have it ourselves, on the training's PYTHONPATH."""
    safe = ["-P"] if sys.version_info >= (3, 11) else []
    return [sys.executable, *safe, "-m", "perftui.own_path", name]


def start_in_run(
    layout: RunLayout, name: str, *words: str, close_fds: bool
) -> subprocess.Popen[bytes]:
    """Start our module ``name`` for the run, in a session of its own; its output is logged there.

    Raises:
        OSError: no process can be started, or the run directory is gone.
    """
    layout.recorder_log.touch(0o600)
    with layout.recorder_log.open("ab") as log:
        return subprocess.Popen(
            [*our_module(name), str(layout.root.resolve()), *words],
            cwd=layout.root,
            # Not what C libraries changed behind Python's back: readline sets LINES and COLUMNS.
            env=dict(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            close_fds=close_fds,
        )


def start_diagnosis(layout: RunLayout) -> None:
    """Have the diagnosis of an ended run written to ``findings.json`` by a process of its own.

    What diagnoses stands above the recorder and needs more memory; the recorder stays small while
    the training lives, and nobody waits for the diagnosis at its end.

    Raises:
        OSError: no process can be started, or the run directory is gone.
    """
    reap(start_in_run(layout, "perftui.report", close_fds=True))


def reap(process: subprocess.Popen[bytes]) -> None:
    """Wait for ``process`` in a thread: else it would stay a zombie, which looks alive, and be
    warned of on stderr, where warnings are shown."""
    threading.Thread(target=process.wait, name="reap", daemon=True).start()
