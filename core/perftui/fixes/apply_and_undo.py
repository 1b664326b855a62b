"""Writes a patch to the source and takes it back, byte for byte."""

from __future__ import annotations

import hashlib
import os
import stat
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from perftui.fixes.option import Patch
from perftui.run.files import DAMAGE, read_regular, replace_file
from perftui.run.origin import ForeignRunError, is_signed, is_trusted, signature


@dataclass(frozen=True)
class AppliedPatch:
    """A patch that stands in the source; its record is ``<patch_id>.json`` in the store."""

    patch_id: str
    """Ascending in the order of application."""
    path: str
    """The file that was written: what a symbolic link leads to."""
    title: str
    before_sha256: str
    after_sha256: str
    mode: int
    """Permission bits of the file, kept."""
    modified_ns: int
    """When the file was last changed before, given back by undo: a run that started later can
    then know that its source is what it ran."""
    fix: str = ""
    """Identifier of the fix, empty where it was not noted."""
    signature: str = ""
    """Proof that this user wrote it."""

    @property
    def applied_ns(self) -> int:
        """When it was written, ns since the epoch; 0 where its name does not contain it."""
        time_part = self.patch_id.partition("-")[0]
        return int(time_part) if time_part.isdecimal() else 0


class SourceChangedError(ValueError):
    """The file is not what it was when the patch was made or applied; it is left alone."""


def apply_patch(patch: Patch, store: Path, title: str = "", fix: str = "") -> AppliedPatch:
    """Write ``patch`` atomically, after its original has been kept in ``store``.

    The file's permissions and owner stay, and a symbolic link stays a link.

    Raises:
        SourceChangedError: the file no longer holds what the patch was made from.
        PermissionError: the file belongs to somebody to whom we cannot give the new one.
        OSError: the store or the file cannot be written; the file is then untouched.
    """
    check_unchanged(patch)
    path = patch.path.resolve()
    status = path.stat()
    applied = AppliedPatch(
        patch_id=f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}",
        path=str(path),
        title=title,
        before_sha256=digest(patch.before),
        after_sha256=digest(patch.after),
        mode=stat.S_IMODE(status.st_mode),
        modified_ns=status.st_mtime_ns,
        fix=fix,
    )
    applied = replace(applied, signature=signature(*_signed(applied)))
    store.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(original_of(applied, store), patch.before)
    replace_file(_record(applied, store), msgspec.json.encode(applied))
    try:
        replace_file(path, patch.after, applied.mode, (status.st_uid, status.st_gid))
    except BaseException:
        _forget(applied, store)
        raise
    return applied


def check_unchanged(patch: Patch) -> None:
    """Raise unless the file still holds what ``patch`` was made from.

    Raises:
        SourceChangedError: it holds something else; the message names whether that is the patch.
        OSError: it cannot be read.
    """
    path = patch.path.resolve()
    now = read_regular(path)
    if now == patch.before:
        return
    if now == patch.after:
        raise SourceChangedError(f"{path} already has this fix")
    raise SourceChangedError(f"{path} has changed since the patch was made: review it again")


def undo(applied: AppliedPatch, store: Path) -> Path:
    """Give the source back the bytes it had before ``applied``, and return which file that was.

    Raises:
        ForeignRunError: the record may be somebody else's, and so may the text that it brings.
        SourceChangedError: the file has been edited since; the message names the kept original.
        OSError: the original or the file cannot be read or written.
    """
    patch = undoing(applied, store)
    status = patch.path.stat()
    owner = status.st_uid, status.st_gid
    replace_file(patch.path, patch.after, stat.S_IMODE(applied.mode), owner)
    os.utime(patch.path, ns=(applied.modified_ns, applied.modified_ns))
    _forget(applied, store)
    return patch.path


def undoing(applied: AppliedPatch, store: Path) -> Patch:
    """The patch that ``undo`` would write, to be shown before.

    Raises:
        ForeignRunError: the record may be somebody else's, and so may the text that it brings.
        SourceChangedError: the file has been edited since; the message names the kept original.
        OSError: the original or the file cannot be read.
    """
    if not is_signed(applied.signature, *_signed(applied)) and not is_trusted(store):
        raise ForeignRunError(
            f"the fix on record in {store} was not written by you on this machine. Undoing it "
            f"would write {applied.path}. Add --trust if you trust whoever made it"
        )
    path = Path(applied.path)
    original = original_of(applied, store)
    before = read_regular(original)
    if digest(before) != applied.before_sha256:
        raise SourceChangedError(f"{original} is not the original that was saved")
    now = read_regular(path)
    if digest(now) != applied.after_sha256:
        raise SourceChangedError(
            f"{path} was edited after the fix was written, so it is left alone. The version before "
            f"the fix is in {original}"
        )
    return Patch(path, now, before, becomes="restored")


def last_applied(store: Path) -> AppliedPatch | None:
    """The newest patch recorded in ``store``; None where there is none.

    A record that cannot be read, or whose patch never reached the file (the process died in
    between), is passed over.
    """
    return next((patch for patch in applied_patches(store) if not _is_original(patch)), None)


def applied_to(path: Path, store: Path) -> Iterator[AppliedPatch]:
    """The patches recorded in ``store`` that stand in the file at ``path``, newest first.

    Once somebody else has edited the file none is certain to stand there.
    """
    try:
        expected = digest(read_regular(path))
    except OSError:
        return
    for applied in applied_patches(store):
        if applied.path == str(path.resolve()) and applied.after_sha256 == expected:
            yield applied
            expected = applied.before_sha256


def applied_patches(store: Path) -> Iterator[AppliedPatch]:
    """The patches recorded in ``store`` that can be read, newest first."""
    for record in sorted(store.glob("*.json"), reverse=True):
        if applied := _read(record):
            yield applied


def patch_store(root: Path) -> Path:
    """Where originals are saved: beside the runs, or in the run itself where it lies elsewhere."""
    if root.parent.name == "runs" and root.parent.parent.name == ".perftui":
        return root.parent.parent / "patches"
    return root / "patches"


def original_of(applied: AppliedPatch, store: Path) -> Path:
    """The kept original of the patched file, raw bytes."""
    return store / f"{applied.patch_id}.original"


def _signed(applied: AppliedPatch) -> tuple[str, ...]:
    texts = (applied.path, applied.before_sha256, applied.after_sha256)
    return ("patch", applied.patch_id, *texts, str(applied.mode), str(applied.modified_ns))


def _record(applied: AppliedPatch, store: Path) -> Path:
    return store / f"{applied.patch_id}.json"


def _read(record: Path) -> AppliedPatch | None:
    try:
        return msgspec.json.decode(read_regular(record), type=AppliedPatch)
    except (OSError, *DAMAGE):
        return None


def _is_original(applied: AppliedPatch) -> bool:
    try:
        return digest(read_regular(Path(applied.path))) == applied.before_sha256
    except OSError:
        return False


def _forget(applied: AppliedPatch, store: Path) -> None:
    _record(applied, store).unlink(missing_ok=True)
    original_of(applied, store).unlink(missing_ok=True)


def digest(content: bytes) -> str:
    """SHA-256, hexadecimal."""
    return hashlib.sha256(content).hexdigest()
