"""A report for others: the same figures, without what is private."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from perftui.report.redaction.private import known_at, known_of
from perftui.report.redaction.redaction import Redaction
from perftui.report.redaction.redactor import Redactor
from perftui.report.report import Report
from perftui.run.manifest import BY_HOST, GPU_DEVICES, GPU_PROCESSES, OTHER_PROGRAMS, Manifest


def redacted_manifest(manifest: Manifest, redactor: Redactor) -> Manifest:
    """The same without process numbers, names of hosts, and programs beside the run; all other
    texts are redacted where they are written."""
    return replace(
        manifest,
        host=redactor.host(manifest.host),
        pid=None,
        recorder_pid=None,
        recorder_created=None,
        profile={name: _entry(name, noted, redactor) for name, noted in manifest.profile.items()},
    )


def _entry(name: str, noted: Any, redactor: Redactor) -> Any:
    if not isinstance(noted, dict):
        return noted
    if name not in BY_HOST:
        return _texts(noted, redactor)
    change = _CHANGES.get(name)
    changed = ((host, change(one, redactor) if change else one) for host, one in noted.items())
    return {redactor.host(host): _texts(one, redactor) for host, one in changed}


def _texts(value: Any, redactor: Redactor) -> Any:
    """Names within are texts of others too."""
    if isinstance(value, dict):
        return {redactor(str(name)): _texts(one, redactor) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_texts(one, redactor) for one in value]
    return redactor(value) if isinstance(value, str) else value


def _other_programs(noted: Any, redactor: Redactor) -> Any:
    """Those seen on one host."""
    if not isinstance(noted, dict) or not isinstance(noted.get("cores"), dict):
        return {}
    cores = {redactor.program(name): cores for name, cores in noted["cores"].items()}
    return {"seconds": noted.get("seconds"), "cores": cores}


def _gpu_processes(noted: Any, redactor: Redactor) -> Any:
    """By GPU of one host."""
    if not isinstance(noted, dict):
        return {}
    return {
        gpu: [_gpu_process(one, redactor) for one in found if isinstance(one, dict)]
        for gpu, found in noted.items()
        if isinstance(found, list)
    }


def _gpu_process(one: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    program, user = one.get("program"), one.get("user")
    return {
        "program": redactor.program(program) if isinstance(program, str) else None,
        "user": redactor.number("user", user) if isinstance(user, str) else None,
        "memory": one.get("memory"),
    }


def _gpu_devices(noted: Any, redactor: Redactor) -> Any:
    if not isinstance(noted, list):
        return []
    return [_gpu_device(one, redactor) for one in noted if isinstance(one, dict)]


def _gpu_device(one: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    uuid = one.get("uuid")
    return {**one, "uuid": redactor.number("uuid", uuid) if isinstance(uuid, str) else None}


_CHANGES: dict[str, Callable[[Any, Redactor], Any]] = {
    OTHER_PROGRAMS: _other_programs,
    GPU_PROCESSES: _gpu_processes,
    GPU_DEVICES: _gpu_devices,
}


def redacted(report: Report) -> Report:
    """The report with a redaction, which ``rendered`` applies. Its facts stay what they are: they
    are worked out from the files that the paths name."""
    redaction = Redaction(Redactor(known_of(report)))
    subject, run = report.subject, report.subject.run
    if run is not None:
        manifest = redacted_manifest(run.manifest, redaction.redactor)
        subject = replace(subject, run=replace(run, manifest=manifest))
    return replace(report, subject=subject, redaction=redaction)


def redaction_at(path: Path) -> Redaction:
    """How the report of one file is redacted that is no trace."""
    return Redaction(Redactor(known_at(path)))


def rendered(render: Callable[[Report], str], report: Report) -> str:
    """What ``render`` makes of the report, redacted where the report is.

    Raises:
        RedactionError: something private would be left in it.
    """
    text = partial(render, report)
    return text() if report.redaction is None else report.redaction.applied(text)
