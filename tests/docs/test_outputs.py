"""What README.md and docs show of commands is what they print."""

import re
from pathlib import Path

import pytest

from perftui.facts.data_loader.loader import read_worker_curve
from perftui.run.manifest import Manifest
from perftui.run.reader import RunReader
from perftui_tui.cli import main
from tests.described import described
from tests.docs.alike import HOME, differences, masked, parsed, unlike
from tests.docs.documents import DOCUMENTS, PLAYED, ROOT, Shown, scripts, sessions
from tests.docs.running import Recordings, printed
from tests.ran import Capture
from tests.tui.fake_trial import play, try_on_a_thread
from tests.tui.recorded import ENDED, write_run, write_script
from tests.tui.test_check_and_compare import place, record

__all__ = ["place"]

SCRIPT = "train.py"
STEPS = 100
"""What the documents give as ``--max-steps``."""
CODES = frozenset({0, 3, 4, 5})
"""Exit codes of the verdicts that a busy machine may come to."""


def runs_of(place: Path) -> dict[str, str]:
    runs = sorted((place / ".perftui" / "runs").glob("*-train-*"))
    return dict(zip(("RUN", "RUN2"), map(str, runs), strict=False))


def held(shown: Shown, place: Path) -> str:
    """How the output of a command differs from what is shown of it; empty where it does not."""
    runs = runs_of(place)
    words = [runs.get(word, word) for word in shown.command.words]
    told = printed(words)
    if "--json" not in words:
        found = unlike(shown.output, told.both.replace(str(place), HOME))
    elif told.out:
        described("brief" if "--brief" in words else words[0], told.out)
        found = differences_of(shown.output, told.out.replace(str(place), HOME))
    else:
        found = told.both
    if shown.code is not None and told.code != shown.code and not {told.code, shown.code} <= CODES:
        found += f"\nexit code {told.code}, not {shown.code}"
    return found and f"{shown.command}\n{found}"


def differences_of(shown: str, output: str) -> str:
    return "\n".join(differences(parsed(shown), parsed(output)))


def manifests(directory: Path) -> list[Manifest]:
    return [RunReader(root).poll().manifest for root in sorted(directory.glob("*-train-*"))]


@pytest.mark.slow
@pytest.mark.subprocess
def test_commands_print_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All in one test: each training takes seconds, and they go on from one another."""
    (script,) = scripts()
    train = tmp_path / SCRIPT
    train.write_text(script[1])
    recordings = Recordings(train)
    for module, name in Recordings.PLACES:
        monkeypatch.setattr(module, name, recordings)
    try_on_a_thread(monkeypatch)
    monkeypatch.setattr("perftui_tui.commands.output.TELL_EVERY_S", 3600)
    monkeypatch.chdir(tmp_path)
    real = (document for document in DOCUMENTS if document != PLAYED)
    shown = [one for document in real for one in sessions(document)]
    assert len(shown) > 10
    wrong = [found for one in shown if (found := held(one, tmp_path))]
    assert wrong == [], "\n\n".join(wrong)
    assert train.read_text() == script[1], "the last command shown of a fix takes it back"
    check_order(recordings, check_runs(tmp_path))


def check_runs(place: Path) -> int:
    """A run that repeats another names it; those of a trial are as long as was asked.

    Returns how many numbers of workers were measured before the trial."""
    first, again = manifests(place / ".perftui" / "runs")
    assert again.parent == first.run_id
    trials = place / ".perftui" / "trials" / first.run_id
    # With one core or two there may be nothing to choose among.
    curve = read_worker_curve(place / ".perftui" / "runs" / first.run_id)
    counts = len(curve.points) if curve else 0
    fixes = [[one.fix for one in each.overrides] for each in manifests(trials)]
    numbers = [[], *[["loader-workers"]] * counts] if counts else []
    assert fixes == [*numbers, [], ["loader-workers"]]
    roots = sorted(trials.glob("*-train-*"))[len(numbers) :]
    assert [len(RunReader(root).poll().ranks[0].steps) for root in roots] == [STEPS, STEPS]
    return counts


def check_order(recordings: Recordings, counts: int) -> None:
    """A trial begins with a run that is not counted, and turns every other pair around; before it
    each number of workers is tried, there and back."""
    tried = [bool(one.overrides) for one in recordings.asked if one.options.losses]
    numbers = [False, *[True] * 2 * counts, False] if counts else []
    assert tried[: len(numbers) + 5] == [*numbers, False, False, True, True, False]


def shown_below(command: str) -> list[str]:
    """The lines below ``command`` in docs/experiments.md."""
    _, _, block = (ROOT / "docs" / "experiments.md").read_text().partition(f"\n{command}\n")
    return block.partition("```")[0].splitlines()


def test_a_tuning_prints_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With runs that are played: real ones take minutes."""
    script = write_script(tmp_path)
    runs = tmp_path / ".perftui" / "runs"
    root = write_run(runs, script=script, loader_line=4, cwd=str(tmp_path), **ENDED)
    play(monkeypatch, script).let(100)
    lines = printed(["tune", str(root)]).out.splitlines()
    shown = shown_below("perftui tune RUN")
    assert len(shown) > 10
    assert alike(lines) == alike(shown)


def alike(lines: list[str]) -> list[str]:
    """The lines before the diff and its head, without figures."""
    upto = next(at for at, line in enumerate(lines) if line.startswith("@@"))
    # Played runs have no losses.
    losses = r"the first N losses are the same|losses not checked: .*"
    masks = ((r"\S+ undoes the", "RUN undoes the"), (r" +N ", " N "), (losses, "LOSSES"))
    masked_lines = [masked(line) for line in lines[:upto] if "not kept" not in line]
    for pattern, name in masks:
        masked_lines = [re.sub(pattern, name, line) for line in masked_lines]
    return masked_lines


COMPARED = "perftui compare .perftui/runs/20231114-* -- .perftui/runs/20231115-*"


def recorded(place: Path, letter: str, day: int, waits: tuple[int, ...]) -> list[Path]:
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
    recorded(place, "1", 14, (118, 121, 117, 119, 118, 120))
    recorded(place, "2", 15, (166, 162))
    assert main(["check", "--against", "history", "--fail-on", "none"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed == shown_below("perftui check --against history --fail-on none")


def test_a_comparison_of_many_runs_prints_what_is_shown(place: Path, capsys: Capture) -> None:
    before = recorded(place, "1", 14, (118, 121, 117, 119, 118, 120))
    after = recorded(place, "2", 15, (166, 162, 165, 163, 161, 164))
    assert main(["compare", *map(str, before), "--", *map(str, after)]) == 3
    assert capsys.readouterr().out.splitlines() == shown_below(COMPARED)
