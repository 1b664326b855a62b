"""What docs/api.md shows of Python is what Python does, and the session of docs/mcp.md what a
server answers."""

import doctest
import json
import re
from pathlib import Path

import pytest
from mcp import Client

import perftui
from perftui_tui.commands.mcp_server import Calls, make_server
from perftui_tui.commands.mcp_tools import offered
from tests.docs.alike import HOME, differences, parsed
from tests.docs.documents import ROOT, snippets
from tests.tui.driving import in_process
from tests.tui.fake_trial import FASTER, FakeTrial, play_trial
from tests.tui.recorded import ENDED, SCRIPT, write_run, write_script
from tests.tui.traces import write_trace

DOCUMENT = ROOT / "docs" / "api.md"


def test_examples_print_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "runs", **ENDED)
    write_trace(tmp_path)
    monkeypatch.chdir(tmp_path)

    found = doctest.testfile(str(DOCUMENT), module_relative=False, optionflags=doctest.ELLIPSIS)

    assert found.attempted > 15
    assert found.failed == 0


def test_the_example_for_recorded_runs_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_run(tmp_path / ".perftui" / "runs", **ENDED)
    monkeypatch.chdir(tmp_path)
    (code,) = snippets(ROOT / "docs" / "runs.md")

    exec(code, {})  # noqa: S102 - what the document shows

    verdict, numbers = capsys.readouterr().out.splitlines()
    assert verdict == perftui.open_run(root).verdict
    assert numbers.endswith("('loader-workers',)")


@pytest.mark.parametrize("name", ["Run", "Trace"])
def test_all_that_they_have_is_in_a_table(name: str) -> None:
    rows = re.findall(r"^\| (`.*?) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    shown = {word for row in rows for word in re.findall(r"`(\w+)", row)}
    names = {one for one in dir(getattr(perftui, name)) if not one.startswith("_")}

    assert names <= shown


RUN = "20231114-221320-train-7729"
CALL = re.compile(r"^> (\w+) (\{.*\})\n((?:(?!> ).*\n)+)", re.MULTILINE)


@pytest.mark.slow
async def test_the_session_is_what_a_server_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = write_script(tmp_path)
    runs = tmp_path / ".perftui" / "runs"
    root = write_run(runs, run_id=RUN, script=script, loader_line=4, cwd=str(tmp_path), **ENDED)
    in_process(monkeypatch)
    fake = FakeTrial(*FASTER)
    fake.let(len(FASTER))
    play_trial(monkeypatch, fake)
    _, _, session = (ROOT / "docs" / "mcp.md").read_text().partition("\n## A session\n")
    shown = CALL.findall(session)
    assert len(shown) > 3
    server = make_server(Calls(offered(allow_run=True), ()), allow_run=True)
    async with Client(server) as client:
        for tool, arguments, expected in shown:
            given = json.loads(arguments.replace("RUN", root.name))
            found = await client.call_tool(tool, given)
            told = json.dumps(found.structured_content).replace(str(tmp_path), HOME)
            wrong = differences(parsed(expected.partition("```")[0]), json.loads(told))
            assert wrong == [], f"{tool}: {wrong}\n{told}"
    assert script.read_text() == SCRIPT
