"""How often a run is read: as often as is useful, never so often that the training feels it."""

import pytest

from perftui_tui import source


def test_a_quick_read_is_repeated_every_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "POLL_SECONDS", 1.0)
    assert source.pause_after(0.002) == 1.0


def test_a_slow_read_takes_a_twentieth_of_a_core_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "POLL_SECONDS", 1.0)
    assert source.pause_after(0.5) == pytest.approx(10.0)
    assert source.pause_after(5.0) == source.LONGEST_POLL_SECONDS
