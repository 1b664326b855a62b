"""Whether a run was recorded by this user.

A run directory may come from anybody: from a mail, a build, a repository. It is read, but its
command is not run and files that it names are not written. Everything that the recorder prepares
here is therefore signed with a key that never leaves the user's home, and anything without such a
signature needs the user's consent."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import shlex
from contextlib import suppress
from pathlib import Path

import msgspec

from perftui.run.files import open_regular, replace_file, user_directory
from perftui.run.layout import RunLayout
from perftui.run.manifest import Manifest

VARIABLE = "PERFTUI_TRUST_RUNS"
"""Set to 1 all runs are trusted: for machines without a home, as containers of builds."""

_BYTES = 32
_trusted: set[Path] = set()


class ForeignRunError(PermissionError):
    """It is not known to come from this user; the message names the refused action."""


def trust(path: Path) -> None:
    """Accept files in ``path`` as the user's own, until the process ends."""
    _trusted.add(path.resolve())


def is_trusted(path: Path) -> bool:
    """Whether the user trusts ``path``, a directory that holds it, or everything."""
    resolved = path.resolve()
    is_listed = not _trusted.isdisjoint((resolved, *resolved.parents))
    return is_listed or os.environ.get(VARIABLE) == "1"


def signature(*parts: str) -> str:
    """Proof that this user put these texts together; empty if no key can be kept."""
    try:
        key = _key()
    except OSError:
        return ""
    return hmac.new(key, json.dumps(parts).encode(), hashlib.sha256).hexdigest()


def is_signed(text: str, *parts: str) -> bool:
    """Whether ``given`` is the signature of these texts."""
    expected = signature(*parts)
    return bool(expected) and hmac.compare_digest(text.encode(), expected.encode())


def sign_run(layout: RunLayout, manifest: Manifest) -> None:
    """Note that this user prepared the run; without a home only until the process ends."""
    if signed := signature(*_what_runs(manifest)):
        replace_file(layout.origin, signed.encode())
    else:
        trust(layout.root)


def check_run(root: Path, manifest: Manifest) -> None:
    """Return if the run may be run again and its files written. Raises ForeignRunError if it was
    not recorded by this user, or its command was changed since."""
    signed = ""
    with suppress(OSError), open_regular(RunLayout(root).origin) as file:
        signed = file.read(200).decode("ascii", "replace")
    if is_signed(signed, *_what_runs(manifest)) or is_trusted(root):
        return
    raise ForeignRunError(
        f"{root} was not recorded by you on this machine. It asks to run, in {manifest.cwd}: "
        f"{shlex.join(manifest.command)}. Add --trust if you trust whoever made it"
    )


def _what_runs(manifest: Manifest) -> tuple[str, ...]:
    """Everything that decides what a repetition runs: command, directory, changes."""
    overrides = json.dumps(msgspec.to_builtins(manifest.overrides), sort_keys=True)
    return ("run", manifest.run_id, manifest.cwd, overrides, *manifest.command)


def _key() -> bytes:
    """The user's key, created when first needed."""
    path = user_directory("XDG_STATE_HOME", ".local/state") / "key"
    with suppress(FileNotFoundError):
        return _read_key(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".key-{secrets.token_hex(4)}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(_BYTES))
    try:
        # Of two recorders that start at once the first wins, and both use its key.
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
    return _read_key(path)


def _read_key(path: Path) -> bytes:
    """Raises OSError if others could know the key or could have put it there."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        key = file.read(_BYTES)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077 or len(key) != _BYTES:
        raise PermissionError(f"{path} is not a private key of this user")
    return key
