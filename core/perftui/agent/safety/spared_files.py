"""Keeps a copy of each file before a training that is only a trial writes to it.

The training itself sees nothing of it: it opens the same files under the same names. Once it is
over the recorder's reader puts them back (``experiments.restore``). What is written by C++ is
seen for ``torch.save`` only.
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
from ..hooks.around import put_around

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC

_OTHERS = ("/dev/", "/proc/", "/sys/", "/run/")
"""Where files are no files of a user's."""

_CACHES = frozenset({"__pycache__", ".cache", "site-packages", "dist-packages", ".perftui", ".git"})
"""Directories whose files make the next run faster, or are ours."""


class SparedFiles:
    """Listens to what Python opens for writing, removes and renames."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: set[str] = set()
        self._temporary = os.path.realpath(tempfile.gettempdir()) + os.sep
        self._inside = threading.local()

    def arm(self, torch: Any) -> None:
        """Listen from now on, to the end of the process: a hook cannot be taken back."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        sys.addaudithook(self._audit)

        def saving(args: Any, named: Any) -> None:
            file = args[1] if len(args) > 1 else (named or {}).get("f")
            if isinstance(file, (str, os.PathLike)):
                self.will_write(file)

        torch.serialization.save = torch.save = put_around(torch, torch.save, saving)

    def will_write(self, path: Any) -> None:
        """The file ``path`` is about to be written, made or removed.

        Raises:
            OSError: it cannot be copied, and must not be lost: the run ends rather than write.
        """
        self._guarded(self._spare, path)

    def _guarded(self, work: Callable[[Any], None], path: Any) -> None:
        """What ``work`` does itself is not listened to.

        Raises:
            OSError: ``work`` did, the disk being full for instance.
        """
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

    def _spare(self, given: Any) -> None:
        path = _own_path(given)
        if path is None or path in self._seen:
            return
        self._seen.add(path)
        if not os.path.lexists(path):
            # Temporary files are nobody's, and some of them are caches of compilers.
            if not path.startswith(self._temporary):
                self._note({"path": path, "copy": None})
        elif os.path.isfile(path):  # noqa: PTH113
            self._keep(path, sha256(os.fsencode(path)).hexdigest()[:32])

    def _keep(self, path: str, name: str) -> None:
        try:
            if self._copy(path, self._directory / name):
                self._note({"path": path, "copy": name})
        except OSError:
            # Whoever tries to write it again is to fail again.
            self._seen.discard(path)
            (self._directory / name).unlink(missing_ok=True)
            raise

    def _copy(self, path: str, copy: Path) -> bool:
        """Whether this process made the copy: another of the training may have been first."""
        try:
            os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        shutil.copy2(path, copy)
        return True

    def _note_directory(self, given: Any) -> None:
        path = _own_path(given)
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


def _own_path(given: Any) -> str | None:
    """The absolute path of the file that ``given`` leads to; None where it is not the user's."""
    if isinstance(given, int):
        return None
    path = os.path.realpath(os.fsdecode(given))
    is_other = path.startswith(_OTHERS) or not _CACHES.isdisjoint(Path(path).parts)
    return None if is_other else path
