"""Finds in the user's own source the line that sets something, which nothing else tells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from perftui.facts.fact import Facts
from perftui.facts.main_thread import stack_samples
from perftui.facts.settings import notes_of

MOST_FILES = 8

LARGEST = 1 << 20
"""Bytes of a file that is read."""


def line_that_says(facts: Facts, pattern: str) -> tuple[str, int] | None:
    """File and line of the first line that matches ``pattern``, comments aside: in the script that
    was run, then in the files that samples of its stack name. None where none does, and where the
    files are not to be had as they were when the run began."""
    for path, changed in own_files(facts):
        line = _line(path, changed, pattern)
        if line is not None:
            return str(path), line
    return None


def own_files(facts: Facts) -> Iterator[tuple[Path, int]]:
    """The user's source files as they were when the run began, the script first: path and time of
    the last change, ns. Of a trace alone there are none."""
    manifest = facts.manifest
    for file in _files(facts) if manifest else ():
        path = Path(manifest.cwd) / file if manifest else Path(file)
        try:
            known = path.stat()
        except OSError:
            continue
        if manifest and known.st_size <= LARGEST and known.st_mtime_ns <= manifest.started_ns:
            yield path, known.st_mtime_ns


def _files(facts: Facts) -> list[str]:
    scripts = (note.get("argv0") for note in notes_of(facts.events, "process"))
    found = dict.fromkeys(str(script) for script in scripts if script)
    for stacks in stack_samples(facts):
        if "file" in stacks:
            found.update(dict.fromkeys(file for file in stacks["file"].tolist() if file))
    return list(found)[:MOST_FILES]


@lru_cache(128)
def _line(path: Path, changed: int, pattern: str) -> int | None:  # noqa: ARG001 - part of the key
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    matches = re.compile(pattern).search
    for number, line in enumerate(lines, 1):
        if matches(line.partition("#")[0]):
            return number
    return None
