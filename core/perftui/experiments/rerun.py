"""The same training again, with a fix."""

from __future__ import annotations

import enum
from dataclasses import replace
from pathlib import Path

from perftui.fixes.model import FixOption, Patch
from perftui.recorder.launch import Launch
from perftui.recorder.options import options_of
from perftui.run.manifest import Expected, Override
from perftui.run.reader import RunSnapshot
from perftui.run.stack_samples import looks_of

DEFAULT_SIZE = (80, 24)
"""Columns and rows of a terminal that nobody looks at."""


class Form(str, enum.Enum):
    """How the fix gets into the run."""

    OVERRIDE = "override"
    """At run time; the source is not touched."""
    SOURCE = "source"
    """It is in the source already."""


def rerun_launch(
    run: RunSnapshot,
    option: FixOption,
    form: Form = Form.OVERRIDE,
    size: tuple[int, int] = DEFAULT_SIZE,
) -> Launch:
    """The launch that repeats ``run`` with ``option``, its parent being ``run``.

    ``size`` is that of its terminal, columns and rows.

    Overrides that were in force stay, except one of the same fix, which gives way. What a patch
    wrote is noted, so that a comparison can tell whether it reached the training. Where the run
    recorded options of the profiler, they are used again.

    Raises:
        ValueError: the option cannot be tried at run time, and ``form`` asks for that.
    """
    kept = tuple(o for o in run.manifest.overrides if o.fix != option.fix)
    if form is Form.OVERRIDE:
        if option.override is None:
            raise ValueError(option.why_not or f"{option.fix} cannot be tried at run time")
        kept = (*kept, option.override)
    launch = _repeat(run, kept, option.title, size)
    if form is Form.SOURCE and option.patch is not None:
        return replace(launch, expected=(_expected(option.patch),))
    return launch


def _expected(patch: Patch) -> Expected:
    made = (patch.target or "").rpartition(".")[2]
    return Expected(made, dict(patch.arguments), str(patch.path), patch.line)


def repeat_launch(run: RunSnapshot, size: tuple[int, int] = DEFAULT_SIZE) -> Launch:
    """The launch that repeats ``run`` as it was, in a terminal of ``size`` (columns, rows)."""
    return _repeat(run, run.manifest.overrides, None, size)


def _repeat(
    run: RunSnapshot,
    overrides: tuple[Override, ...],
    name: str | None,
    size: tuple[int, int],
) -> Launch:
    manifest = run.manifest
    return Launch(
        command=manifest.command,
        cwd=Path(manifest.cwd),
        runs=run.root.parent,
        overrides=overrides,
        parent=manifest.run_id,
        name=name,
        options=options_of(manifest.profile),
        stack_samples_per_second=looks_of(manifest.profile),
        columns=size[0],
        rows=size[1],
    )
