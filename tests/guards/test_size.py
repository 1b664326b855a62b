"""The project gets no larger: whoever adds lines or files takes as many away.

The counts only ever go down. After a change that makes something smaller, write the new count here.
"""

from collections import Counter
from pathlib import Path

import pytest

from tests.guards.sources import REPOSITORY

ENDINGS = {".py", ".pyi", ".c", ".h"}

MOST = {"core and tui": (470, 106_840), "tests": (529, 95_762)}
"""Files and lines."""

CODE_OF_ROWS = ("__init__", "lookup", "row")
"""Files of the table of slow calls that are not data, of which there may always be more."""

ROOMS = {"core and tui": ("core", "tui"), "tests": ("tests",)}

MOST_IN_A_FOLDER = 25
"""Files of core or tui."""


def sources(room: str) -> list[Path]:
    return [
        path
        for folder in ROOMS[room]
        for path in (REPOSITORY / folder).rglob("*")
        if path.suffix in ENDINGS and path.is_file()
    ]


def is_data(path: Path) -> bool:
    return path.parent.name == "slow_calls" and path.stem not in CODE_OF_ROWS


@pytest.mark.parametrize("room", ROOMS)
def test_there_are_no_more_files_and_lines_than_before(room: str) -> None:
    files = [path for path in sources(room) if not is_data(path)]
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    most_files, most_lines = MOST[room]
    assert len(files) <= most_files, f"{len(files)} files in {room}"
    assert lines <= most_lines, f"{lines} lines in {room}"


def test_no_folder_holds_more_files_than_before() -> None:
    folders = Counter(path.parent for path in sources("core and tui"))
    folder, count = folders.most_common(1)[0]
    assert count <= MOST_IN_A_FOLDER, f"{count} files in {folder}"
