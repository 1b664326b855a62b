"""How the training is started, in the user's environment and ours, and how modules of ours are."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

import perftui
from perftui.run.manifest import Override
from perftui.wire.options import AgentOptions
from perftui.wire.spool import OPTIONS_VARIABLE, OVERRIDES_VARIABLE, SPOOL_VARIABLE

INJECT = Path(perftui.__file__).parent / "agent" / "inject"
"""Holds only the ``sitecustomize`` that loads the agent into every Python of the run."""

LINKED = "inject"
"""The directory in the spool with a link to that file. What Python compiles it to lies beside the
link, where it can be written whatever is read-only or unwanted where perftui is installed."""

ENVIRONMENT = "environment"
"""Target of the overrides that are variables."""


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
    # All of them: the agent tells of each what became of it.
    environment[OVERRIDES_VARIABLE] = msgspec.json.encode(overrides).decode()
    for override in overrides:
        if override.target == ENVIRONMENT:
            _apply(environment, override)
    return environment


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
