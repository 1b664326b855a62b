"""Which script a command runs, past the options of the interpreter and of PyTorch's launcher."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from perftui.run.manifest import Manifest

_PYTHON = re.compile(r"(python|pypy)[\d.]*t?$")
_FLAGS = re.compile(r"-[bBdEiIOPqRsSuvx]+$")
"""Options of Python without a value, alone or in one word, as ``python --help`` lists them."""
_VALUED = re.compile(r"-[bBdEiIOPqRsSuvx]*[WX](.*)$", re.DOTALL)
_HASHES = "--check-hash-based-pycs"

_LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")
_LAUNCHER_FLAGS = ("--standalone", "--run-path", "--virtual-local-rank", "--use-env")
_LAUNCHER_VALUED = (
    *("--nnodes", "--nproc-per-node", "--node-rank", "--master-addr", "--master-port"),
    *("--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--rdzv-conf", "--local-addr", "--role"),
    *("--max-restarts", "--monitor-interval", "--start-method", "--event-log-handler"),
    *("--log-dir", "-r", "--redirects", "-t", "--tee", "--local-ranks-filter", "--logs-specs"),
    *("--duplicate-stdout-filters", "--duplicate-stderr-filters", "--numa-binding"),
    *("--signals-to-handle", "--shutdown-timeout"),
)
"""Options of ``torchrun`` (torch 2.13) that come before the script; later ones may be unknown."""


@dataclass(frozen=True)
class LaunchedScript:
    """The script that a command runs."""

    path: Path
    begin: int
    """Where in the command its own arguments begin."""
    word: int | None = None
    """Which word of the command is its path; None where a module is named instead."""


def launched_script(command: tuple[str, ...], cwd: Path) -> LaunchedScript | None:
    """The script that ``command`` runs in ``cwd``; None where that is not certain."""
    if not command:
        return None
    program = Path(command[0]).name
    if program == "torchrun":
        return _by_launcher(command, 1, cwd)
    if _PYTHON.match(program):
        return _by_python(command, cwd)
    # An interpreter by another name, or a script with its interpreter in its first line.
    named = [at for at, word in enumerate(command[:2]) if word.endswith(".py")]
    return _by_path(command, named[0], cwd) if named else None


def script_of(manifest: Manifest | None) -> LaunchedScript | None:
    """The script that a run's command runs; None where that is not certain."""
    return launched_script(manifest.command, Path(manifest.cwd)) if manifest else None


def _by_python(command: tuple[str, ...], cwd: Path) -> LaunchedScript | None:
    at = 1
    while at < len(command):
        word = command[at]
        valued = _VALUED.match(word)
        if valued or word == _HASHES:
            at += 1 if valued and valued[1] else 2
        elif _FLAGS.match(word):
            at += 1
        elif word == "-m":
            return _module(command, at + 1, cwd)
        else:
            return None if word.startswith("-") else _by_path(command, at, cwd)
    return None


def _module(command: tuple[str, ...], at: int, cwd: Path) -> LaunchedScript | None:
    """The module named at ``at``, where it lies in the current directory, or what it launches."""
    if at >= len(command):
        return None
    if command[at] in _LAUNCHERS:
        return _by_launcher(command, at + 1, cwd)
    module = cwd.joinpath(*command[at].split("."))
    for path in (module / "__main__.py", module.with_name(f"{module.name}.py")):
        if path.is_file():
            return LaunchedScript(path, at + 1)
    return None


def _by_launcher(command: tuple[str, ...], at: int, cwd: Path) -> LaunchedScript | None:
    is_module = False
    while at < len(command) and command[at].startswith("-"):
        name, equals, _ = command[at].partition("=")
        # The launcher takes both spellings of each long option.
        name = name.replace("_", "-")
        if name in ("-m", "--module"):
            is_module = True
        elif name not in (*_LAUNCHER_FLAGS, *_LAUNCHER_VALUED):
            return None
        at += 2 if name in _LAUNCHER_VALUED and not equals else 1
    if at >= len(command):
        return None
    return _module(command, at, cwd) if is_module else _by_path(command, at, cwd)


def _by_path(command: tuple[str, ...], at: int, cwd: Path) -> LaunchedScript:
    return LaunchedScript(cwd / command[at], at + 1, at)
