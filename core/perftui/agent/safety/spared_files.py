"""Keeps a copy of each file before a training that is only a trial writes to it.

The training itself sees nothing of it: it opens the same files under the same names. Once it is
over the recorder's reader restores them (``experiments.restore``). Of files that C++ writes, only
those of ``torch.save`` are seen.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from ...wire.spool import SPARED_JOURNAL
from ..hooks.watch import put_around

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC

_SYSTEM = ("/dev/", "/proc/", "/sys/", "/run/")
"""Directories that hold no files of users."""

_CACHES = frozenset({"__pycache__", ".cache", "site-packages", "dist-packages", ".perftui", ".git"})
"""Directories whose files make the next run faster, or are ours."""


class SparedFiles:
    """Watches files that Python opens for writing, removes and renames."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: set[str] = set()
        self._temporary = os.path.realpath(tempfile.gettempdir()) + os.sep
        self._inside = threading.local()

    def arm(self, torch: Any) -> None:
        """Listen until the end of the process: an audit hook cannot be removed."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        sys.addaudithook(self._audit)

        def saving(args: Any, kwargs: Any) -> None:
            file = args[1] if len(args) > 1 else (kwargs or {}).get("f")
            if isinstance(file, (str, os.PathLike)):
                self.will_write(file)

        torch.serialization.save = torch.save = put_around(torch, torch.save, saving)

    def will_write(self, path: Any) -> None:
        """The file ``path`` is about to be written, made or removed. Raises OSError if the copy
        failed: the run ends rather than lose the file."""
        self._guarded(self._spare, path)

    def _guarded(self, work: Callable[[Any], None], path: Any) -> None:
        """Call ``work`` without listening to what it opens. Raises OSError if ``work`` did, the
        disk being full for instance."""
        if getattr(self._inside, "yes", False):
            return
        self._inside.yes = True
        try:
            work(path)
        except OSError as error:
            why = f"perftui cannot keep a copy: {error.strerror}"
            raise OSError(error.errno, why, path) from None
        except Exception:  # noqa: BLE001, S110 - it must not reach the training
            pass
        finally:
            self._inside.yes = False

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            if arguments[2] & _WRITES:
                self.will_write(arguments[0])
        elif event in ("os.remove", "os.truncate"):
            self.will_write(arguments[0])
        elif event == "os.rename":
            self.will_write(arguments[0])
            self.will_write(arguments[1])
        elif event == "os.mkdir":
            self._guarded(self._note_directory, arguments[0])

    def _spare(self, file: Any) -> None:
        path = _own_path(file)
        if path is None or path in self._seen:
            return
        self._seen.add(path)
        if not os.path.lexists(path):
            # Temporary files belong to nobody, and some are caches of compilers.
            if not path.startswith(self._temporary):
                self._note({"path": path, "copy": None})
        elif os.path.isfile(path):  # noqa: PTH113
            self._keep(path, sha256(os.fsencode(path)).hexdigest()[:32])

    def _keep(self, path: str, name: str) -> None:
        try:
            if self._copy(path, self._directory / name):
                self._note({"path": path, "copy": name})
        except OSError:
            # The next attempt to write the file must fail again.
            self._seen.discard(path)
            (self._directory / name).unlink(missing_ok=True)
            raise

    def _copy(self, path: str, copy: Path) -> bool:
        """Whether this process made the copy: another one of the training may have been first."""
        try:
            os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        shutil.copy2(path, copy)
        return True

    def _note_directory(self, directory: Any) -> None:
        path = _own_path(directory)
        is_new = path is not None and not os.path.lexists(path)
        if is_new and path and not path.startswith(self._temporary):
            self._note({"made": path})

    def _note(self, entry: dict[str, Any]) -> None:
        line = json.dumps({**entry, "time": time.time_ns()}).encode() + b"\n"
        journal = os.open(
            self._directory / SPARED_JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        try:
            os.write(journal, line)
        finally:
            os.close(journal)


def _own_path(file: Any) -> str | None:
    """Absolute path that ``file`` resolves to; None if it is not the user's file."""
    if isinstance(file, int):
        return None
    path = os.path.realpath(os.fsdecode(file))
    is_other = path.startswith(_SYSTEM) or not _CACHES.isdisjoint(Path(path).parts)
    return None if is_other else path
