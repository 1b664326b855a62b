"""Files that are replaced whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perftui.run.files import replacing


def test_a_file_is_seen_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def pieces() -> Iterator[bytes]:
    yield b"new"
    raise ZeroDivisionError


def write_pieces(path: Path) -> None:
    with replacing(path) as file:
        file.writelines(pieces())


def test_what_fails_half_way_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError):
        write_pieces(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
