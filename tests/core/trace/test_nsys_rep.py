from __future__ import annotations

import gc
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from perftui.trace.errors import LoadCancelled, TraceError
from perftui.trace.load import load_trace
from perftui.trace.nsys.nsys_rep import load_report
from tests.core.trace import nsys_exports as nsys

Install = Callable[[str], None]


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "my report.nsys-rep"
    path.write_bytes(b"what nsys wrote")
    return path


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where exports are put."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    return directory


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a shell script on PATH as ``nsys``."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")

    def write(script: str) -> None:
        program = programs / "nsys"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    return write


def exporting(prepared: Path, called: Path) -> str:
    """A script that notes how it was called and exports what was prepared."""
    return (
        f'printf "%s\\n" "$@" > {shlex.quote(str(called))}\n'
        'for word in "$@"; do case "$word" in --output=*) out="${word#--output=}";; esac; done\n'
        f'cp {shlex.quote(str(prepared))} "$out"'
    )


def test_a_report_is_exported_and_loaded(
    tmp_path: Path, report: Path, temporary: Path, install: Install
) -> None:
    prepared = nsys.write(tmp_path / "prepared.sqlite", nsys.small())
    called = tmp_path / "called"
    install(exporting(prepared, called))
    before = report.read_bytes()
    trace = load_trace(report)
    assert trace.path == report
    assert len(trace) == 3
    assert called.read_text().splitlines()[:2] == ["export", "--type=sqlite"]
    assert called.read_text().splitlines()[-1] == str(report)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "called",
        "my report.nsys-rep",
        "prepared.sqlite",
        "programs",
        "temporary",
    ]
    assert report.read_bytes() == before
    (private,) = temporary.iterdir()
    assert private.stat().st_mode & 0o077 == 0
    assert trace.read_arguments(0)
    del trace
    gc.collect()
    assert not list(temporary.iterdir())


def test_the_stage_is_told(tmp_path: Path, report: Path, temporary: Path, install: Install) -> None:
    prepared = nsys.write(tmp_path / "prepared.sqlite", nsys.small())
    install("sleep 0.3\n" + exporting(prepared, tmp_path / "called"))
    stages: list[str] = []
    told: list[int] = []
    load_report(report, lambda done, _: told.append(done), stage=stages.append)
    assert stages == ["nsys export"]
    assert told[0] == 0
    assert told[-1] == prepared.stat().st_size


def test_without_nsys_the_command_to_run_elsewhere_is_told(
    tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TraceError) as caught:
        load_trace(report)
    words = shlex.split(str(caught.value).split(": ", 1)[1].split(";")[0])
    assert words == [
        "nsys",
        "export",
        "--type=sqlite",
        "--force-overwrite=true",
        f"--output={report.with_suffix('.sqlite')}",
        str(report),
    ]


def test_a_failed_export_is_told_with_its_last_words(
    report: Path, temporary: Path, install: Install
) -> None:
    install("echo first; echo 'the report is from a newer version' >&2; exit 3")
    with pytest.raises(TraceError, match=r"exit code 3.*newer version"):
        load_trace(report)
    assert not list(temporary.iterdir())


def test_an_export_that_never_came_is_told(report: Path, temporary: Path, install: Install) -> None:
    install("exit 0")
    with pytest.raises(TraceError, match="it said nothing"):
        load_trace(report)
    assert not list(temporary.iterdir())


def test_an_export_without_events_is_told_by_the_name_of_the_report(
    tmp_path: Path, report: Path, temporary: Path, install: Install
) -> None:
    prepared = nsys.write(tmp_path / "prepared.sqlite", {"OSRT_API": ("start, end", [])})
    install(exporting(prepared, tmp_path / "called"))
    with pytest.raises(TraceError, match=r"my report\.nsys-rep holds no kernel"):
        load_trace(report)
    assert not list(temporary.iterdir())


def test_cancelling_ends_nsys(report: Path, temporary: Path, install: Install) -> None:
    install('echo $$ > "$(dirname "$0")/pid"; exec sleep 60')
    asked: list[bool] = []

    def cancelled() -> bool:
        asked.append(True)
        return len(asked) > 3

    with pytest.raises(LoadCancelled):
        load_report(report, cancelled=cancelled)
    assert not list(temporary.iterdir())
    pid = int((report.parent / "programs" / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_missing_report_is_told(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        load_trace(tmp_path / "absent.nsys-rep")
