"""Run a training again, with a fix or with the text of a patch in place of a file."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from perftui.fixes.apply import check_unchanged, patch_store
from perftui.fixes.model import FixOption, Patch
from perftui.recorder.environment import options_of
from perftui.recorder.launch import Launch
from perftui.run.columns import stack_rate_of
from perftui.run.files import replace_file
from perftui.run.manifest import Expected, Override
from perftui.run.origin import check_run
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


class Form(str, enum.Enum):
    """How the fix gets into the run."""

    OVERRIDE = "override"
    """At run time; the source is not touched."""
    SOURCE = "source"
    """The fix is in the source already."""


def rerun_launch(run: RunSnapshot, option: FixOption, form: Form = Form.OVERRIDE) -> Launch:
    """The launch that repeats ``run`` with ``option``, its parent being ``run``.

    Overrides that were in force stay, except one of the same fix, which gives way. What a patch
    wrote is noted, so that a comparison can show whether it reached the training. Where the run
    recorded options of the profiler, they are used again.

    Raises:
        ForeignRunError: the run may be somebody else's, and so may its command.
        ValueError: the option cannot be tried without writing it, and ``form`` asks for that.
        OSError: the text of its patch cannot be kept beside the runs.
    """
    check_run(run.root, run.manifest)
    kept = tuple(o for o in run.manifest.overrides if o.fix != option.fix)
    written = option.patch
    if form is Form.OVERRIDE and option.override is not None:
        kept, written = (*kept, option.override), None
    elif form is Form.OVERRIDE:
        kept = (*kept, source_override(run, option))
    return replace(
        repeat_launch(run),
        overrides=kept,
        name=option.title,
        expected=(_expected(written),) if written and written.target else (),
    )


def _expected(patch: Patch) -> Expected:
    made = (patch.target or "").rpartition(".")[2]
    return Expected(made, dict(patch.arguments), str(patch.path), patch.line)


def repeat_launch(run: RunSnapshot) -> Launch:
    """The launch that repeats ``run`` as it was.

    Raises:
        ForeignRunError: the run may be somebody else's, and so may its command.
    """
    manifest = run.manifest
    check_run(run.root, manifest)
    return Launch(
        command=manifest.command,
        cwd=Path(manifest.cwd),
        runs=run.root.parent,
        overrides=manifest.overrides,
        parent=manifest.run_id,
        options=replace(options_of(manifest.profile), spares_files=False, losses=0),
        stack_samples_per_second=stack_rate_of(manifest.profile),
    )
