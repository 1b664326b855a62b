"""What docs/experiments.md shows of many runs, printed of runs that are played: real ones take
minutes."""

from pathlib import Path

from perftui_tui.cli import main
from tests.docs.documents import ROOT
from tests.ran import Capture
from tests.tui.test_check_and_compare import place, record

__all__ = ["place"]

COMPARED = "perftui compare .perftui/runs/20231114-* -- .perftui/runs/20231115-*"
DOCUMENT = ROOT / "docs" / "experiments.md"


def shown(command: str) -> list[str]:
    """The lines below ``command`` in the document."""
    _, _, block = DOCUMENT.read_text(encoding="utf-8").partition(f"\n{command}\n")
    return block.partition("```")[0].splitlines()


def play(place: Path, letter: str, day: int, waits: tuple[int, ...]) -> list[Path]:
    """Runs of one commit, one an hour."""
    return [
        record(
            place,
            f"202311{day}-{hour:02}1320-train",
            hours=24 * day + hour,
            wait_ms=wait,
            git_commit=letter * 40,
            git_dirty=False,
        )
        for hour, wait in enumerate(waits)
    ]


def test_a_history_prints_what_is_shown(place: Path, capsys: Capture) -> None:
    play(place, "1", 14, (118, 121, 117, 119, 118, 120))
    play(place, "2", 15, (166, 162))
    assert main(["check", "--against", "history", "--fail-on", "none"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed == shown("perftui check --against history --fail-on none")


def test_a_comparison_of_many_runs_prints_what_is_shown(place: Path, capsys: Capture) -> None:
    before = play(place, "1", 14, (118, 121, 117, 119, 118, 120))
    after = play(place, "2", 15, (166, 162, 165, 163, 161, 164))
    assert main(["compare", *map(str, before), "--", *map(str, after)]) == 3
    printed = capsys.readouterr().out.splitlines()
    assert printed == shown(COMPARED)
