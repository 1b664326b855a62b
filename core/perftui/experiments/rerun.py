"""Run a training again, with a fix."""

from __future__ import annotations

import enum
from dataclasses import replace
from pathlib import Path

from perftui.experiments.patched_source import source_override
from perftui.fixes.model import FixOption, Patch
from perftui.recorder.launch import Launch
from perftui.recorder.options import options_of
from perftui.run.manifest import Expected
from perftui.run.origin import check_run
from perftui.run.reader import RunSnapshot
from perftui.run.stack_samples import stack_rate_of


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
