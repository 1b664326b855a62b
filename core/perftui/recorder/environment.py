"""Starts the training in the user's environment with our additions, and starts our own modules."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

import perftui
from perftui.run.layout import RunLayout
from perftui.run.manifest import Override
from perftui.wire.spool import OPTIONS_VARIABLE, OVERRIDES_VARIABLE, SPOOL_VARIABLE, AgentOptions

INJECT = Path(perftui.__file__).parent / "agent" / "inject"
"""Holds only the ``sitecustomize`` that loads the agent into every Python of the run."""

LINKED = "inject"
"""Directory in the spool with a link to that file. Python writes the compiled file beside the link,
even where perftui is installed read-only or without compiled files."""

ENVIRONMENT = "environment"
"""Target of the overrides that are variables."""

SOURCE = "source"
"""Target of the overrides that run a patched copy in place of a file."""

PATCHED_MAIN = Path(perftui.__file__).parent / "agent" / "startup" / "patched_main.py"
"""Script that runs in place of the training's, with the patched copy."""


def training_environment(
    base: Mapping[str, str], spool: Path, options: AgentOptions, overrides: Sequence[Override] = ()
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
    environment[OPTIONS_VARIABLE] = msgspec.json.encode(options).decode()
    # All overrides: the agent notes the outcome of each.
    environment[OVERRIDES_VARIABLE] = msgspec.json.encode(overrides).decode()
    for override in overrides:
        for name, value in override.arguments.items() if override.target == ENVIRONMENT else ():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = str(value)
    return environment


def patched_command(command: Sequence[str], overrides: Sequence[Override]) -> tuple[str, ...]:
    """``command`` with its script replaced by the runner of the patched copy, if there is one."""
    words = {override.arguments["word"] for override in overrides if override.target == SOURCE}
    return tuple(str(PATCHED_MAIN) if at in words else word for at, word in enumerate(command))


def _link(spool: Path) -> str:
    directory = spool / LINKED
    directory.mkdir(exist_ok=True)
    for file in INJECT.glob("*.py"):
        link = directory / file.name
        if not link.is_symlink():
            link.symlink_to(file)
    return str(directory)


def our_module(name: str) -> list[str]:
    """Our interpreter running ``name``, without imports from the current directory or, where
    perftui is installed for us, from the training's PYTHONPATH."""
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
            # Without changes by C libraries behind Python's back: readline sets LINES and COLUMNS.
            env=dict(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            close_fds=close_fds,
        )


def start_diagnosis(layout: RunLayout) -> None:
    """Start a process that writes the diagnosis of an ended run to ``findings.json``.

    The diagnosis stands above the recorder and needs more memory; the recorder stays small while
    the training lives, and nobody waits for the diagnosis at its end.

    Raises:
        OSError: no process can be started, or the run directory is gone.
    """
    reap(start_in_run(layout, "perftui.report", close_fds=True))


def reap(process: subprocess.Popen[bytes]) -> None:
    """Wait for ``process`` in a thread: otherwise it would stay a zombie, which looks alive, and
    Python would warn of it on stderr."""
    threading.Thread(target=process.wait, name="reap", daemon=True).start()


TIMEOUT = 5.0
"""Seconds for each git call; a status of a huge tree on a network disk may not answer."""

POLL_SECONDS = 0.05
"""Seconds between two checks whether the answer is still needed."""


def git_state(cwd: Path, cancelled: threading.Event) -> tuple[str | None, bool | None]:
    """The commit checked out around ``cwd``, and whether tracked files differ from it.

    The commit is None outside a repository, the difference where git did not answer. Setting
    ``cancelled`` ends git, and what it has not answered yet stays None.
    """
    git = shutil.which("git")
    commit = _ask(git, cwd, cancelled, "rev-parse", "HEAD") if git else None
    if git is None or not commit:
        return None, None
    changes = _ask(git, cwd, cancelled, "status", "--porcelain", "--untracked-files=no")
    return commit, None if changes is None else bool(changes)


def _ask(git: str, cwd: Path, cancelled: threading.Event, *arguments: str) -> str | None:
    until = time.monotonic() + TIMEOUT
    try:
        process = subprocess.Popen(
            (git, "-C", str(cwd), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Otherwise status takes the index lock, which a commit of the user may need.
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except OSError:
        return None
    while (answer := _answer(process)) is None:
        if cancelled.is_set() or time.monotonic() > until:
            process.kill()
    return answer.decode(errors="replace").strip() if process.returncode == 0 else None


def _answer(process: subprocess.Popen[bytes]) -> bytes | None:
    try:
        return process.communicate(timeout=POLL_SECONDS)[0]
    except subprocess.TimeoutExpired:
        return None


def options_of(profile: Mapping[str, Any]) -> AgentOptions:
    """The options among the ``profile`` facts of a manifest; missing ones have their defaults.

    All have their defaults where another version wrote them in another form.
    """
    try:
        return msgspec.convert(profile, AgentOptions)
    except msgspec.ValidationError:
        return AgentOptions()
