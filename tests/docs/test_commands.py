"""Every command that README.md, docs and the skill name is one, and those that print are run."""

import sys
from pathlib import Path

import fsspec
import pytest

from perftui_tui.cli import main
from perftui_tui.commands import reference
from perftui_tui.commands.line import AGAIN, UsageError, parse
from perftui_tui.commands.output import ERROR
from tests.docs.documents import DOCUMENTS, Command, commands
from tests.docs.running import IDS, write_place
from tests.tui.fake_trial import FASTER, FakeTrial, play_trial
from tests.tui.traces import write_trace

STARTS = frozenset(
    {"script", "module", "command", AGAIN, "replay", "attach", "demo", "tune", "isolate", "mcp"}
)
"""Actions that are only read here: they run a training, fill a terminal or wait for a client."""

FAILS = frozenset({"check"})
"""Actions for which the code of an error is a result."""

FIRST, SECOND = (f".perftui/runs/{one}" for one in IDS)
WORDS = {
    "RUN": FIRST,
    "RUN2": SECOND,
    "A": FIRST,
    "B": SECOND,
    **dict.fromkeys(("A1", "A2...", ".perftui/runs/20231114-*"), FIRST),
    **dict.fromkeys(("B1", "B2...", ".perftui/runs/20231115-*"), SECOND),
    "BASELINE": FIRST,
    "PATH": FIRST,
    "TRACE": "rank0.pt.trace.json",
    "DIR": "traces",
    "N": "0",
    "FIX": "loader-workers",
    "FINDING": "input-in-main-thread",
    "RULE": "input-in-main-thread",
    "COMMAND": "report",
    "PYTHON": sys.executable,
    "DATA": "traces",
    "TABLE": "steps",
}
"""What stands in the place of a name in capitals."""

REMOTE = ("s3://", "https://")
FAR = ("bucket/traces/rank0.pt.trace.json", "host/before.json.gz", "host/after.json.gz")
"""Files of the URLs that documents name; the memory of fsspec stands in for them."""

SKILL_NAME = "SKILL.md"


def documented() -> list[Command]:
    found = [command for document in DOCUMENTS for command in commands(document)]
    return list({command.words: command for command in found}.values())


def of_the_skill(folder: Path) -> list[Command]:
    skill = folder / SKILL_NAME
    skill.write_text(Path(reference.__file__).with_name("SKILL.md").read_text())
    return list(commands(skill))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, where runs and traces have short names, too."""
    write_place(tmp_path)
    (tmp_path / "runs").symlink_to(tmp_path / ".perftui" / "runs")
    (tmp_path / "traces").mkdir()
    write_trace(tmp_path / "traces")
    for name in FAR:
        trace = (tmp_path / "rank0.pt.trace.json").read_bytes()
        fsspec.filesystem("memory").pipe_file(f"/{name}", trace)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def near(word: str) -> str:
    """A URL with what stands in for its file system."""
    starts = [start for start in REMOTE if word.startswith(start)]
    return f"memory://{word.removeprefix(starts[0])}" if starts else word


def run(command: Command, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """The exit code of a command that prints; None where it is only read."""
    words = [WORDS.get(word, near(word)) for word in command.words]
    line = parse(words)
    # A command that is misspelt is read as a script.
    assert line.action != "script" or line.words[0].endswith(".py"), f"{command} is no command"
    if line.action in STARTS or line.reports:
        return None
    fake = FakeTrial(*FASTER)
    fake.let(len(FASTER))
    play_trial(monkeypatch, fake)
    monkeypatch.setattr("perftui.probe.probe.SECONDS", 0.4)
    if line.action == "undo":
        assert main(["apply", "loader-workers", FIRST]) == 0
    code = main(words)
    return None if line.action in FAILS and code == ERROR else code


@pytest.mark.slow
@pytest.mark.parametrize("command", documented(), ids=str)
def test_each_command_of_the_documents_is_one(
    command: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(command, monkeypatch) not in (ERROR, 2)


def test_each_command_of_the_skill_is_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = of_the_skill(place)
    assert len(found) > 10
    codes = {str(command): run(command, monkeypatch) for command in found}
    assert {name: code for name, code in codes.items() if code in (ERROR, 2)} == {}


@pytest.mark.parametrize("words", ["reprot RUN", "report --jsn RUN", "try no-such-fix RUN"])
def test_what_is_no_command_is_noticed(
    words: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        code = run(Command("a.md:1", tuple(words.split())), monkeypatch)
    except (AssertionError, UsageError):
        return
    assert code == 2


def test_commands_are_found_in_blocks_and_across_lines(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text(
        "Run `perftui\nruns` or `srun perftui --headless -- x`.\n\n"
        "```\n$ perftui report --json RUN; echo $?\n{}\n0\nperftui a.py > b || c\n```\n"
    )
    assert [str(command) for command in commands(document)] == [
        "a.md:5 perftui report --json RUN",
        "a.md:8 perftui a.py",
        "a.md:1 perftui runs",
        "a.md:2 perftui --headless -- x",
    ]
