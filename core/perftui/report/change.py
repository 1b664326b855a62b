"""A fix that was written to the source, or taken back, as JSON."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from perftui.fixes.apply import AppliedPatch
from perftui.fixes.model import FixOption, Patch
from perftui.report.encode import Command, Schema
from perftui.report.findings import Numerics
from perftui.report.next_command import again_command, apply_command, undo_command

Digest = Annotated[str | None, Meta(description="SHA-256 of the file, hexadecimal.")]


class ApplyOutput(TypedDict):
    """`perftui apply`: a fix written to the source."""

    schema: Schema
    fix: str
    title: str
    run: str
    outcome: Literal["written", "dry run", "written already"]
    file: str | None
    diff: Annotated[str | None, Meta(description="Unified diff; null if there is nothing to do.")]
    before_sha256: Digest
    after_sha256: Digest
    risks: list[str]
    changes_numerics: Numerics
    next: Command


class UndoOutput(TypedDict):
    """`perftui undo`: the source as it was before the last fix."""

    schema: Schema
    fix: Annotated[str | None, Meta(description="Null if an older version wrote it.")]
    title: str
    outcome: Literal["taken back", "dry run"]
    file: str
    diff: str
    before_sha256: Digest
    after_sha256: Digest
    next: Command


SCHEMA = 1


def apply_object(
    option: FixOption, root: Path, outcome: Literal["written", "dry run", "written already"]
) -> ApplyOutput:
    """What became of ``option`` for the run at ``root``."""
    patch = option.patch
    is_dry = outcome == "dry run"
    return {
        "schema": SCHEMA,
        "fix": option.fix,
        "title": option.title,
        "run": root.name,
        "outcome": outcome,
        "file": str(patch.path) if patch else option.file,
        "diff": patch.diff() if patch else None,
        "before_sha256": _digest(patch.before) if patch else None,
        "after_sha256": _digest(patch.after) if patch else None,
        "risks": [risk.value for risk in option.risks],
        "changes_numerics": option.changes_numerics,
        "next": apply_command(option.fix, root) if is_dry else again_command(root),
    }


def undo_object(
    applied: AppliedPatch, patch: Patch, root: Path, outcome: Literal["taken back", "dry run"]
) -> UndoOutput:
    """What became of taking back ``applied``, by ``patch``."""
    return {
        "schema": SCHEMA,
        "fix": applied.fix or None,
        "title": applied.title,
        "outcome": outcome,
        "file": str(patch.path),
        "diff": patch.diff(),
        "before_sha256": _digest(patch.before),
        "after_sha256": _digest(patch.after),
        "next": undo_command(root) if outcome == "dry run" else None,
    }


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()
