"""Where kept traces lie, what they must agree with, and how they are packed."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perftui.trace.cache import (
    CannotBeKept,
    cache_directory,
    code_identity,
    file_identity,
    is_private,
    pack,
)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"PERFTUI_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a/traces"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/perftui/traces"),
        ({"XDG_CACHE_HOME": "b", "HOME": "/c"}, "/c/.cache/perftui/traces"),
        ({"PERFTUI_CACHE": "", "HOME": "/c"}, "/c/.cache/perftui/traces"),
        ({"HOME": "nowhere"}, None),
        ({"PERFTUI_CACHE": "0", "HOME": "/c"}, None),
        ({"PERFTUI_CACHE": "Off", "HOME": "/c"}, None),
    ],
)
def test_where_traces_are_kept(
    environment: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", environment)
    assert cache_directory() == (Path(expected) if expected else None)


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_directory_that_others_write_to_is_not_private(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    assert not is_private(tmp_path)


def test_a_directory_of_another_user_is_not_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_private(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert not is_private(tmp_path)


def test_code_is_told_apart_by_every_letter(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "a.py").write_text("x = 1\n")
    seen = [code_identity(tmp_path)]
    for name, text in (
        *(("inner/b.py", "y = 1\n"), ("inner/b.py", "y = 2\n"), ("d.py", "")),
        *(("inner/e.c", "int z = 1;\n"), ("inner/e.c", "int z = 2;\n")),
    ):
        (tmp_path / name).write_text(text)
        seen.append(code_identity(tmp_path))
    (tmp_path / "a.py").rename(tmp_path / "c.py")
    seen.append(code_identity(tmp_path))
    assert code_identity(tmp_path) == seen[-1]
    assert len(set(seen)) == 7


@pytest.mark.parametrize("size", [0, 10, 64 * 1024, 200_000])
def test_a_file_is_told_apart_by_its_ends(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(size))
    before = file_identity(path)
    assert file_identity(path) == before
    for place in (0, size - 1):
        path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            file.seek(max(place, 0))
            file.write(b"x")
        assert file_identity(path) != before


def test_a_pipe_is_not_read_and_nothing_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert file_identity(tmp_path / "pipe") is None
    assert file_identity(tmp_path / "absent") is None


@dataclass(frozen=True, eq=False)
class Holder:
    held: Any


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], "\ud800", (1, 2)])
def test_what_would_change_is_refused(value: Any) -> None:
    with pytest.raises(CannotBeKept):
        pack(Holder(value), [])
