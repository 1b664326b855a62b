"""What a dataset is and what it holds, as far as that bears on loading it in workers."""

from __future__ import annotations

import io
import re
import types
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

FILE_PACKAGES = frozenset({"h5py", "lmdb", "sqlite3", "zarr", "tables", "rasterio"})
"""Packages whose objects are handles: forked workers would share one file position or lock."""


PATH_NAMES = re.compile(r"(^|_)(root|path|paths|dir|folder|files?|filenames?|samples|url)s?$")
"""Attributes that name where data lies, though nothing in the text marks a path."""

MOST_WRAPPED = 4
"""Datasets within one another, such as subsets, that are looked into."""

MOUNTS = Path("/proc/self/mountinfo")


def source_of(dataset: Any) -> dict[str, Any]:
    """``path`` that the dataset names, and the ``mount`` and ``filesystem`` that hold it.

    Nothing is looked up on that file system, which may be slow. Links are not followed.
    """
    path = _path(dataset)
    if path is None:
        return {}
    scheme, found, _ = path.partition("://")
    if found:
        return {"path": path, "filesystem": scheme}
    path = str(Path(path).absolute())
    mount, kind = _mount(path)
    return {"path": path, "mount": mount, "filesystem": kind}


def _path(dataset: Any) -> str | None:
    for _ in range(MOST_WRAPPED):
        held = getattr(dataset, "__dict__", {})
        for name, value in held.items():
            first = _first(value)
            if isinstance(first, str) and _is_path(str(name), first):
                return first
        dataset = held.get("dataset")
    return None


def _first(value: Any) -> Any:
    """The first of a list, of a list of pairs, or the thing itself; a path as its text."""
    for _ in range(2):
        if type(value) in (list, tuple) and value:
            value = value[0]
    return str(value) if isinstance(value, PurePath) else value


def _is_path(name: str, text: str) -> bool:
    if not 0 < len(text) < 1024 or "\n" in text:
        return False
    return text.startswith(("/", "./", "../")) or bool(PATH_NAMES.search(name.lower()))


def _mount(path: str) -> tuple[str | None, str | None]:
    """The mount point that holds ``path``, and its kind of file system."""
    best: tuple[str | None, str | None] = (None, None)
    try:
        with MOUNTS.open(encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                before, _, after = line.partition(" - ")
                point = before.split()[4].replace("\\040", " ")
                inside = path == point or path.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(best[0] or ""):
                    best = point, after.split()[0]
    except (OSError, IndexError):
        return None, None
    return best


def is_iterable_style(torch: Any, dataset: Any) -> bool:
    """Whether the dataset decides by itself what comes next (every worker gets a whole copy)."""
    return isinstance(dataset, torch.utils.data.IterableDataset)


def shards_itself(dataset: Any) -> bool:
    """Whether the dataset's code asks which worker it runs in.

    The evidence is the name ``get_worker_info`` in a method of its class; code that shards in
    another way is not recognised.
    """
    return any("get_worker_info" in code.co_names for code in _class_code(type(dataset)))


def holds_handles(dataset: Any) -> bool:
    """Whether an attribute is an open file, a database handle or a running generator."""
    return any(_is_handle(value) for value in _attributes(dataset))


def holds_cuda_tensors(torch: Any, dataset: Any) -> bool:
    """Whether an attribute is a tensor on a GPU, or a sequence that begins with one."""
    for value in _attributes(dataset):
        first = value[0] if isinstance(value, (list, tuple)) and value else value
        if isinstance(first, torch.Tensor) and first.is_cuda:
            return True
    return False


def is_local(thing: Any) -> bool:
    """Whether a function or class cannot be found by its name, and so cannot be pickled."""
    name = getattr(thing, "__qualname__", "")
    return isinstance(name, str) and ("<locals>" in name or "<lambda>" in name)


def _attributes(dataset: Any) -> list[Any]:
    return list(getattr(dataset, "__dict__", {}).values())


def _is_handle(value: Any) -> bool:
    if isinstance(value, (io.IOBase, types.GeneratorType)):
        return True
    return type(value).__module__.split(".", 1)[0] in FILE_PACKAGES


def _class_code(kind: type) -> Iterator[types.CodeType]:
    for base in kind.__mro__:
        if base.__module__.split(".", 1)[0] in ("torch", "typing", "builtins"):
            continue
        for member in vars(base).values():
            code = getattr(member, "__code__", None)
            if isinstance(code, types.CodeType):
                yield from _nested(code)


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)
