"""Requests travel whole, in order, and once."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.run.control import LARGEST, Request, request, take_requests
from perftui.run.layout import RunLayout, create_run_directory


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return create_run_directory(tmp_path / "runs", "a-run")


def test_requests_are_taken_in_order_and_once(layout: RunLayout) -> None:
    request(layout, "capture")
    request(layout, "resize", rows=40, columns=120)
    request(layout, "stop")
    assert take_requests(layout) == [
        Request("capture"),
        Request("resize", {"rows": 40, "columns": 120}),
        Request("stop"),
    ]
    assert take_requests(layout) == []
    assert list(layout.control.iterdir()) == []


def test_unknown_request_is_refused_before_it_is_written(layout: RunLayout) -> None:
    with pytest.raises(ValueError, match="explode"):
        request(layout, "explode")
    assert list(layout.control.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        b'{"kind": ',
        b'{"kind": "\xff"}',
        b'{"kind": "stop", "x": ' + b"[" * 5000,
        b" " * (LARGEST + 1),
    ],
    ids=["cut off", "no UTF-8", "deep", "large"],
)
def test_damaged_request_is_removed(layout: RunLayout, content: bytes) -> None:
    (layout.control / "0-x.json").write_bytes(content)
    request(layout, "stop")
    assert take_requests(layout) == [Request("stop")]
    assert list(layout.control.iterdir()) == []


def test_what_cannot_be_read_does_not_stop_the_others(layout: RunLayout) -> None:
    (layout.control / "0-directory.json").mkdir()
    (layout.control / "1-nowhere.json").symlink_to(layout.control / "absent")
    request(layout, "stop")
    assert take_requests(layout) == [Request("stop")]


def test_half_written_request_is_left_alone(layout: RunLayout) -> None:
    (layout.control / ".0-x.json.tmp123").write_bytes(b"{")
    assert take_requests(layout) == []
    assert len(list(layout.control.iterdir())) == 1


def test_run_directory_that_is_gone_asks_for_nothing(tmp_path: Path) -> None:
    assert take_requests(RunLayout(tmp_path / "gone")) == []
