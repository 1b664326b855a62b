"""Every finished line comes once and whole, but for those that are too long to be lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.run.journal import LineTail

LONGEST = 20


@pytest.mark.slow
@settings(deadline=None)
@given(
    lines=st.lists(st.binary(max_size=60).map(lambda line: line.replace(b"\n", b"x")), max_size=12),
    pieces=st.lists(st.integers(1, 50), max_size=30),
    limit=st.integers(1, 40),
)
def test_lines_of_a_growing_file(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[bytes],
    pieces: list[int],
    limit: int,
) -> None:
    path = tmp_path_factory.mktemp("tail") / "lines"
    content = b"".join(line + b"\n" for line in lines)
    tail, read = LineTail(path, LONGEST), []
    for piece in [*pieces, len(content)]:
        with path.open("ab") as file:
            file.write(content[:piece])
        content = content[piece:]
        read += tail.poll(limit)
    for _ in range(sum(map(len, lines)) + len(lines)):
        read += tail.poll(limit)

    # A line a little too long may have come in one read with its end: then it is taken.
    kept = [line for line in read if len(line) <= LONGEST]
    assert kept == [line for line in lines if 0 < len(line) <= LONGEST]
    assert len(read) + tail.skipped == sum(1 for line in lines if line)


def test_line_without_end_is_not_kept_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"first\n" + b"x" * 1000)
    tail = LineTail(path, LONGEST)
    assert tail.poll(50) == [b"first"]
    for _ in range(40):
        assert tail.poll(50) == []
    with path.open("ab") as file:
        file.write(b"x\nlast\n")
    assert tail.poll(50) == [b"last"]
    assert tail.skipped == 1


def test_absent_file_has_no_lines(tmp_path: Path) -> None:
    assert LineTail(tmp_path / "absent").poll() == []


def test_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        LineTail(tmp_path).poll()
