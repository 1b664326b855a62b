"""Virtual environments made of what the tests' own has, without a network: links, no copies."""

import subprocess
import sys
import venv
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement


def make_environment(folder: Path, requirements: Iterable[str]) -> Path:
    """An environment with ``requirements`` and all that these need, and nothing else; its Python.
    Raises PackageNotFoundError if the tests' own environment does not have one of them."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    for found in _with_what_they_need(requirements):
        for name, source in _parts(found):
            # Modules of several distributions may share a directory: one link has them all.
            link = packages / name if name.parent == Path() else python.parent / name.name
            if not link.exists():
                link.symlink_to(source)
    return python


def install(python: Path, wheel: Path) -> None:
    """Have pip install ``wheel`` for ``python``; what it requires must be there."""
    pip = (sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check")
    options = ("--quiet", "--no-deps", "--no-index", "--no-compile")
    subprocess.run([*pip, "install", *options, str(wheel)], check=True)


def _with_what_they_need(requirements: Iterable[str]) -> list[Distribution]:
    found: dict[str, Distribution] = {}
    open_ones = [Requirement(one) for one in requirements]
    while open_ones:
        needed = open_ones.pop()
        if needed.name in found or (needed.marker and not needed.marker.evaluate({"extra": ""})):
            continue
        found[needed.name] = distribution(needed.name)
        open_ones += [Requirement(one) for one in found[needed.name].requires or ()]
    return list(found.values())


def _parts(found: Distribution) -> set[tuple[Path, Path]]:
    """Modules, packages, metadata and commands: the name of each, and where it is."""
    parts = set()
    for file in found.files or ():
        if file.parts[0] == "..":
            name = Path(file) if file.parts[-2] == "bin" else None
        else:
            name = Path(file.parts[0])
        if name and name.name != "__pycache__":
            parts.add((name, Path(str(found.locate_file(name))).resolve()))
    return parts
