"""A patch that is tried without touching the file: its text is run in place of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from perftui.fixes.apply import check_unchanged, patch_store
from perftui.fixes.model import FixOption
from perftui.run.atomic import replace_file
from perftui.run.manifest import Override
from perftui.run.reader import RunSnapshot


def source_override(run: RunSnapshot, option: FixOption) -> Override:
    """The override that runs the patch of ``option``, whose text is kept beside the originals of
    patches.

    Raises:
        ValueError: the option has no patch, the command does not name its script by a path, or the
            file is no longer what the patch was made from.
        OSError: the text cannot be kept.
    """
    patch, word = option.patch, option.script_word
    if patch is None or word is None:
        raise ValueError(option.why_not_tried)
    check_unchanged(patch)
    kept = kept_text(patch_store(run.root), patch.path, patch.after)
    return text_override(run.manifest.command, word, patch.path, kept, option.fix)


def text_override(
    command: Sequence[str], word: int, path: Path, text: Path, fix: str | None = None
) -> Override:
    """The override that runs what is in ``text`` in place of ``path``, where ``word`` of the
    ``command`` names its script."""
    given = {"source": str(text), "word": word, "script": command[word]}
    return Override("source", given, str(path), fix=fix)


def kept_text(store: Path, path: Path, content: bytes) -> Path:
    """A file in ``store`` that holds ``content``, one of the texts of ``path``.

    Raises:
        OSError: it cannot be written.
    """
    store.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest = hashlib.sha256(content).hexdigest()
    kept = store.resolve() / f"text-{digest[:16]}-{path.name}"
    replace_file(kept, content)
    return kept
