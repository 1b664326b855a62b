"""Reading files past the page cache."""

import os
from pathlib import Path

import pytest

from perftui.probe import ceilings
from perftui.probe.ceilings import Ceiling, NotMeasured, Rate, disk_read
from perftui.telemetry.files import Mount

MIB = 1 << 20


@pytest.fixture(autouse=True)
def on_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary files of tests may be in memory."""
    monkeypatch.setattr(ceilings, "mount_of", lambda _: Mount("/", "ext4"))
    monkeypatch.setattr(ceilings, "TEMPORARY", 4 * MIB)


def filled(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size))
    return path


def rate(found: Rate | NotMeasured) -> Rate:
    assert isinstance(found, Rate), found
    assert (found.name, found.unit) == (Ceiling.DISK_READ, "B/s")
    assert 0 < found.low <= found.value
    return found


def test_large_files_are_read_where_they_are(tmp_path: Path) -> None:
    filled(tmp_path / "a" / "one.bin", 9 * MIB)
    filled(tmp_path / "two.bin", 2 * MIB)
    filled(tmp_path / "small.txt", 1000)
    found = rate(disk_read(tmp_path, 0.05))
    assert found.how.startswith("2 files of 11.0 MiB, ext4, ")
    assert 1 <= found.repeats <= ceilings.ROUNDS * ceilings.SAMPLES


def test_one_file_may_be_named(tmp_path: Path) -> None:
    filled(tmp_path / "other.bin", 9 * MIB)
    found = rate(disk_read(filled(tmp_path / "data.bin", 5 * MIB), 0.05))
    assert found.how.startswith("1 file of 5.0 MiB, ext4, ")


def test_without_large_files_a_temporary_one_is_read_and_none_stays(tmp_path: Path) -> None:
    filled(tmp_path / "small.txt", 1000)
    found = rate(disk_read(tmp_path, 0.05))
    assert found.how.startswith("a temporary file of 4.0 MiB, ext4, ")
    assert [path.name for path in tmp_path.iterdir()] == ["small.txt"]


def test_files_with_holes_and_links_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with (tmp_path / "data" / "holes.bin").open("wb") as file:
        file.truncate(64 * MIB)
    filled(tmp_path / "real.bin", 9 * MIB)
    (tmp_path / "data" / "link.bin").symlink_to(tmp_path / "real.bin")
    assert rate(disk_read(tmp_path / "data", 0.05)).how.startswith("a temporary file")


def test_a_system_without_direct_reading_drops_its_cache_or_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "_DIRECT", 0)
    filled(tmp_path / "one.bin", 9 * MIB)
    readings = iter([0, 10**12])
    monkeypatch.setattr(ceilings, "_fetched", lambda: next(readings))
    assert rate(disk_read(tmp_path, 0.05)).how.endswith("page cache dropped before")
    monkeypatch.setattr(ceilings, "_fetched", lambda: 0)
    assert "possibly from the page cache" in rate(disk_read(tmp_path, 0.05)).how


def test_a_file_system_that_refuses_direct_reading_is_read_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / "one.bin", 9 * MIB)
    real = os.open

    def refusing(path: Path, flags: int, *rest: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(22, "Invalid argument")
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", refusing)
    assert "O_DIRECT" not in rate(disk_read(tmp_path, 0.05)).how


def test_a_slow_disk_is_read_for_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path / "one.bin", 9 * MIB)
    clock = iter(range(0, 10**6, 10))
    monkeypatch.setattr(ceilings.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(ceilings.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(ceilings, "SEARCH_SECONDS", 1000.0)
    assert rate(disk_read(tmp_path, 1.0)).repeats == 1


def test_what_is_in_memory_has_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "mount_of", lambda _: Mount("/", "tmpfs"))
    found = disk_read(tmp_path, 0.05)
    assert isinstance(found, NotMeasured)
    assert "is in memory (tmpfs)" in found.reason


def test_a_place_that_cannot_be_written_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(ceilings.tempfile, "TemporaryFile", refused)
    found = disk_read(tmp_path, 0.05)
    assert isinstance(found, NotMeasured)
    assert found.reason == f"{tmp_path}: Permission denied"
