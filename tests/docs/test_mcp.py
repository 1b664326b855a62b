"""The session that docs/mcp.md shows is what a server answers."""

import json
import re
from pathlib import Path

import pytest
from mcp import Client

from perftui_tui.commands.mcp_server import Calls, make_server
from perftui_tui.commands.mcp_tools import offered
from tests.docs.alike import HOME, differences, parsed
from tests.docs.documents import ROOT
from tests.tui.driving import in_process
from tests.tui.fake_trial import FASTER, FakeTrial
from tests.tui.recorded import ENDED, SCRIPT, write_run, write_script

pytestmark = pytest.mark.slow

RUN = "20231114-221320-train-7729"
CALL = re.compile(r"^> (\w+) (\{.*\})\n((?:(?!> ).*\n)+)", re.MULTILINE)


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
    monkeypatch.setattr("perftui_tui.commands.experiments.trial", fake)
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
