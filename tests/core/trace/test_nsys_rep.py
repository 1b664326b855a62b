import gc
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perftui.trace.cache import Exports, file_identity, make_room
from perftui.trace.formats import load_trace
from perftui.trace.model import LoadCancelled, TraceError
from perftui.trace.nsys.report import Exporting, load_report
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


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where exports are kept."""
    monkeypatch.setenv("PERFTUI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "traces"


@pytest.fixture
def called(tmp_path: Path, install: Install) -> Path:
    """Exists once ``nsys`` was called."""
    prepared = nsys.write(tmp_path / "prepared.sqlite", nsys.small())
    called = tmp_path / "called"
    install(exporting(prepared, called))
    return called


def test_a_report_is_exported_and_loaded(
    tmp_path: Path, report: Path, temporary: Path, called: Path
) -> None:
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


def test_how_far_nsys_has_come_is_reported(
    tmp_path: Path, report: Path, temporary: Path, install: Install
) -> None:
    prepared = nsys.write(tmp_path / "prepared.sqlite", nsys.small())
    goes_on = tmp_path / "goes on"
    export = exporting(prepared, tmp_path / "called")
    wait = f"while ! test -e {shlex.quote(str(goes_on))}; do sleep 0.02; done"
    install(f'{export}\nprintf more >> "$out"\n{wait}\n{export}')
    told: list[Exporting] = []
    read: list[int] = []

    def tell(now: Exporting) -> None:
        assert not read
        told.append(now)
        if now.written > prepared.stat().st_size:
            goes_on.touch()

    load_report(report, lambda done, _: read.append(done), exporting=tell)
    assert told[-1].written == prepared.stat().st_size + len("more")
    assert [each.seconds for each in told] == sorted(each.seconds for each in told)
    assert told[-1].seconds > 0
    assert read[-1] == prepared.stat().st_size


def test_without_nsys_the_command_to_run_elsewhere_is_reported(
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


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo first; echo 'from a newer version' >&2; exit 3", r"exit code 3.*newer version"),
        ("exit 0", "no output"),
        (None, r"my report\.nsys-rep holds no kernel"),
    ],
    ids=["fails", "writes nothing", "holds no event"],
)
def test_an_export_that_fails_or_holds_nothing_is_reported(
    tmp_path: Path,
    report: Path,
    temporary: Path,
    install: Install,
    script: str | None,
    message: str,
) -> None:
    empty = nsys.write(tmp_path / "prepared.sqlite", {"OSRT_API": ("start, end", [])})
    install(script or exporting(empty, tmp_path / "called"))
    with pytest.raises(TraceError, match=message):
        load_trace(report)
    assert not list(temporary.iterdir())


def test_cancelling_ends_nsys_and_what_it_started(
    report: Path, temporary: Path, install: Install
) -> None:
    """As when ``nsys`` is a script that runs the real one."""
    install(
        'cd "$(dirname "$0")"; for word in "$@"; do case "$word" in --output=*) '
        'echo half > "${word#--output=}";; esac; done\n'
        "sleep 60 & echo $! > started.new; mv started.new started; wait"
    )
    started = report.parent / "programs" / "started"
    with pytest.raises(LoadCancelled):
        load_report(report, cancelled=started.exists)
    assert not list(temporary.iterdir())
    assert ended(int(started.read_text()))


@pytest.mark.slow
def test_a_process_that_ends_takes_nsys_with_it(
    tmp_path: Path, report: Path, cache: Path, install: Install
) -> None:
    started = tmp_path / "started"
    install(f"echo $$ > {started}.new; mv {started}.new {started}; sleep 60")
    code = (
        "import sys, threading, time; from pathlib import Path\n"
        "from perftui.trace.formats import load_trace\n"
        "threading.Thread(target=load_trace, args=[Path(sys.argv[1])], daemon=True).start()\n"
        "while not Path(sys.argv[2]).exists(): time.sleep(0.01)\n"
        # On a busy machine nsys may run before whoever started it knows its number.
        "time.sleep(0.5)"
    )
    subprocess.run([sys.executable, "-c", code, str(report), str(started)], check=True)
    assert ended(int(started.read_text()))
    assert list(cache.iterdir()) == []


def ended(pid: int) -> bool:
    """Whether a process that was killed is gone, or waits for its parent to hear of it."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_the_second_opening_does_not_export_again(
    report: Path, cache: Path, called: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_trace(report)
    (kept,) = cache.iterdir()
    assert (kept.suffix, kept.stat().st_mode & 0o777) == (".sqlite", 0o600)
    assert cache.stat().st_mode & 0o777 == 0o700
    called.unlink()
    monkeypatch.setenv("PATH", "")
    again = load_trace(report)
    assert not called.exists()
    assert again.path == report
    assert again.names == first.names
    assert [again.read_arguments(row) for row in range(3)] == [
        first.read_arguments(row) for row in range(3)
    ]
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("change", ["report", "bit", "length", "others"])
def test_an_export_that_is_stale_or_damaged_is_made_again(
    report: Path, cache: Path, called: Path, change: str
) -> None:
    load_trace(report)
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    if change == "report":
        report.write_bytes(b"recorded again")
    elif change == "bit":
        kept.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
    elif change == "length":
        kept.write_bytes(whole[:-1])
    else:
        cache.chmod(0o770)
    called.unlink()
    trace = load_trace(report)
    assert called.exists()
    assert (len(trace), trace.warnings) == (3, ())
    cache.chmod(0o700)
    assert [path.read_bytes() for path in cache.iterdir()] == [whole]


def test_a_report_that_changes_while_it_is_exported_is_not_kept(
    tmp_path: Path, report: Path, cache: Path, temporary: Path, install: Install
) -> None:
    prepared = nsys.write(tmp_path / "prepared.sqlite", nsys.small())
    install(f"{exporting(prepared, tmp_path / 'called')}\necho more >> {shlex.quote(str(report))}")
    trace = load_trace(report)
    assert trace.read_arguments(0)
    (partial,) = cache.iterdir()
    assert partial.suffix == ".partial"
    del trace
    gc.collect()
    assert not list(cache.iterdir())


def test_a_cancelled_export_leaves_nothing_in_the_cache(
    report: Path, cache: Path, install: Install
) -> None:
    install(
        'for word in "$@"; do case "$word" in --output=*) echo half > "${word#--output=}";; esac; '
        "done; sleep 60"
    )
    told: list[Exporting] = []

    def tell(now: Exporting) -> None:
        assert cache.is_dir()
        told.append(now)

    with pytest.raises(LoadCancelled):
        load_report(report, exporting=tell, cancelled=lambda: any(each.written for each in told))
    assert list(cache.iterdir()) == []


def test_little_room_on_the_disk_is_left_to_others(
    report: Path, cache: Path, called: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(report.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
    trace = load_trace(report)  # keeps its file while it lives
    assert trace.read_arguments(0)
    assert list(cache.iterdir()) == []
    assert len(list(temporary.iterdir())) == 1


def test_what_was_used_longest_ago_gives_way(tmp_path: Path, cache: Path, called: Path) -> None:
    made = []
    for name in "ab":
        report = tmp_path / f"{name}.nsys-rep"
        report.write_text(name)
        load_trace(report)
        (new,) = set(cache.iterdir()) - set(made)
        os.utime(new, (1000 + len(made), 1000))
        made.append(new)
    size = made[0].stat().st_size
    load_trace(tmp_path / "a.nsys-rep")
    assert made[0].stat().st_mtime == 1000
    third = tmp_path / "c.nsys-rep"
    third.write_text("c")
    exports, identity = Exports(cache, most_bytes=2 * size), file_identity(third)
    assert identity is not None
    place = exports.workplace()
    assert place is not None
    prepared = shutil.copy(tmp_path / "prepared.sqlite", place / "report.sqlite")
    kept = exports.keep(third, identity, Path(prepared))
    assert kept is not None
    assert exports.find(third, identity) == kept
    assert [each.exists() for each in made] == [True, False]
    os.utime(place, (1000, 1000))
    (place / "half.sqlite").write_bytes(b"a writer that still writes")
    make_room(cache)
    assert place.exists()
    for each in (place / "half.sqlite", place):
        os.utime(each, (1000, 1000))
    make_room(cache)
    assert not place.exists()


def test_a_missing_report_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        load_trace(tmp_path / "absent.nsys-rep")
