"""Finds in the user's own source the line that sets something, where nothing else names it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from perftui.facts.events import notes_of
from perftui.facts.fact import Facts, fact
from perftui.facts.source.lines import LineShare, stack_samples
from perftui.run.files import read_regular
from perftui.script.program import tree_of

_T = TypeVar("_T")

MOST_FILES = 8

LARGEST = 1 << 18
"""Bytes of a file that is read: some 6000 lines, which Python parses in 0.1 s, once."""


def matching_line(facts: Facts, pattern: str, *, only: bool = False) -> LineShare | None:
    """The first line that matches ``pattern``, comments and docstrings aside: in
    the script that was run, then in the files that samples of its stack name. None where none does,
    with ``only`` where several do, and where the files are not as they were when the run began."""
    found = in_own_files(facts, lambda path, changed: _lines(path, changed, pattern))
    return None if not found or (only and len(found) > 1) else LineShare(*found[0])


def in_own_files(facts: Facts, read: Callable[[Path, int], Iterable[_T]]) -> list[tuple[str, _T]]:
    """What ``read`` finds in each of the user's files, with the file's name."""
    return [(str(path), one) for path, changed in own_files(facts) for one in read(path, changed)]


@fact
def own_files(facts: Facts) -> tuple[tuple[Path, int], ...]:
    """The user's source files as they were when the run began, the script first, those that it
    imports from its own directory last: path and time of the last change, ns. Of a trace alone
    there are none."""
    manifest = facts.manifest
    if manifest is None:
        return ()
    found = []
    # A script is named as it was launched, by samples with its whole path.
    files = [Path(manifest.cwd) / file for file in _files(facts)]
    files += _imported(files[0]) if files else []
    for path in list(dict.fromkeys(files))[:MOST_FILES]:
        try:
            known = path.stat()
        except OSError:
            continue
        if known.st_size <= LARGEST and known.st_mtime_ns <= manifest.started_ns:
            found.append((path, known.st_mtime_ns))
    return tuple(found)


def _imported(script: Path) -> list[Path]:
    """Modules beside ``script`` that it imports, in that order."""
    try:
        tree = tree_of(script, script.stat().st_mtime_ns)
    except OSError:
        return []
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(dict.fromkeys(alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom) and node.module and node.level < 2:
            names[node.module] = None
    files = (script.parent.joinpath(*name.split(".")).with_suffix(".py") for name in names)
    return [file for file in files if file.is_file()]


def _files(facts: Facts) -> list[str]:
    scripts = (note.get("argv0") for note in notes_of(facts.events, "process"))
    found = dict.fromkeys(str(script) for script in scripts if script)
    for stacks in stack_samples(facts):
        if "file" in stacks:
            found.update(dict.fromkeys(file for file in stacks["file"].tolist() if file))
    return list(found)


@lru_cache(128)
def _lines(path: Path, changed: int, pattern: str) -> tuple[int, ...]:
    try:
        text = read_regular(path).decode("utf-8", "replace")
    except OSError:
        return ()
    matches, lines = re.compile(pattern).search, enumerate(text.splitlines(), 1)
    found = [number for number, line in lines if matches(line.partition("#")[0])]
    documented = _docstrings(path, changed) if found else set()
    return tuple(number for number in found if number not in documented)


def _docstrings(path: Path, changed: int) -> set[int]:
    """Lines of strings that stand alone."""
    found = (node.value for node in ast.walk(tree_of(path, changed)) if isinstance(node, ast.Expr))
    alone = (each for each in found if isinstance(each, ast.Constant))
    return {line for each in alone for line in range(each.lineno, (each.end_lineno or 0) + 1)}
