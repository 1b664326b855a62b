"""The recorded runs in few files that can be carried away, and opened on any machine.

Unpacked into one directory they are what ``tests/verify/scenarios/recordings.py`` reads."""

import io
import json
import os
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.gpu.checks.machine import Machine
from tests.gpu.checks.planted import truths

LARGEST = 16_000_000
MOST = 3
"""Bytes of a file, and how many there may be beside the table, its JSON and the log."""

TEXTS = {".json", ".jsonl"}
LARGEST_TEXT = 1 << 20
"""Where paths are shortened; the windows of a profiler are larger, or hold none."""


def pack(machine: Machine, folder: Path) -> list[str]:
    """Write ``recordings-N.tar`` to ``folder``; the names of what did not fit into them."""
    runs = machine.work / "runs"
    scripts = sorted((machine.work / "trainings").glob("*.py"))
    files = {f"trainings/{script.name}": script.read_bytes() for script in scripts}
    files["truth.json"] = (json.dumps(truths(machine), indent=1) + "\n").encode()
    trained = [path for path in sorted(runs.glob("*")) if any(path.rglob("run.json"))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        packed = pool.map(lambda path: _packed(path, str(machine.work)), trained)
        files |= {
            f"runs/{path.name}.tar.xz": made for path, made in zip(trained, packed, strict=True)
        }
    return _spread(files, folder)


def _packed(training: Path, work: str) -> bytes:
    """The runs of a training, ``NAME/FORM/...``, as if they had been made below ``/``."""
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w:xz", preset=2) as archive:
        for name, path in _contents(training):
            content = path.read_bytes()
            if path.suffix in TEXTS and len(content) <= LARGEST_TEXT:
                content = content.replace(work.encode(), b"")
            _add(archive, name, content)
    return memory.getvalue()


def _contents(training: Path) -> Iterator[tuple[str, Path]]:
    """The newest run of each form: every file with its name in the archive."""
    for form in sorted({path.parent.parent for path in training.rglob("run.json")}):
        root = sorted(form.glob("*/run.json"))[-1].parent
        kept = form.relative_to(training.parent)
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.suffix != ".lock":
                yield f"{kept}/{path.relative_to(root)}", path


def _spread(files: dict[str, bytes], folder: Path) -> list[str]:
    """Put files into as many archives as they need, in their order."""
    left: list[str] = []
    number, size = 1, LARGEST
    archive: tarfile.TarFile | None = None
    for name, content in files.items():
        # A header, and what is left of the last block.
        needed = len(content) + 2048
        if archive is None or size + needed > LARGEST - 20_480:
            if number > MOST or needed > LARGEST - 20_480:
                left.append(name)
                continue
            if archive is not None:
                archive.close()
            archive = tarfile.open(folder / f"recordings-{number}.tar", "w")  # noqa: SIM115
            number, size = number + 1, 0
        _add(archive, name, content)
        size += needed
    if archive is not None:
        archive.close()
    return left


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
