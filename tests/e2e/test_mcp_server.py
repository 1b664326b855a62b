"""`perftui mcp` as a client starts it: a process, and the protocol on its stdin and stdout."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from perftui.run.manifest import StopReason
from perftui.run.reader import RunReader
from tests.tui.driving import printed
from tests.tui.recorded import ENDED, SCRIPT, write_run, write_script

pytestmark = [pytest.mark.subprocess, pytest.mark.usefixtures("start_sooner"), pytest.mark.slow]

READING = ["runs", "report", "table", "explain", "diff", "compare", "check"]
RUNNING = ["diagnose", "try", "apply", "undo"]

ENDLESS = """\
import time
open("checkpoint.txt", "w").write("of the trial")
time.sleep(300)
"""
WITH_TORCH = f"import torch\n{ENDLESS}"
"""What comes before torch is not part of a training: files are given back from there on."""
NOISY = """\
import os, subprocess, sys
print('{"jsonrpc": "2.0", "id": 1, "result": {}}', flush=True)
os.write(1, b"noise ")
os.write(2, b"on stderr ")
subprocess.run(["echo", "of a child"])
sys.exit(3)
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of ``WITH_TORCH`` whose loader can be given workers, in the project ``tmp_path``."""
    script = write_script(tmp_path, WITH_TORCH + SCRIPT)
    return write_run(
        tmp_path / ".perftui" / "runs",
        script=script,
        loader_line=4 + WITH_TORCH.count("\n"),
        command=(sys.executable, "train.py"),
        cwd=str(tmp_path),
        **ENDED,
    )


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def client_of(place: Path, opened: ExitStack, *options: str) -> Client:
    words = ["-m", "perftui_tui", "mcp", *options]
    server = StdioServerParameters(
        command=sys.executable, args=words, cwd=place, env=dict(os.environ)
    )
    errors = opened.enter_context((place / "errors.txt").open("w"))
    return Client(stdio_client(server, errlog=errors))


def said(result: Any) -> str:
    (content,) = result.content
    return content.text


async def test_a_client_gets_what_the_commands_print(
    run: Path, tmp_path: Path, opened: ExitStack
) -> None:
    async with client_of(tmp_path, opened) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == READING
        found = await client.call_tool("report", {"path": str(run)})
        report = printed(["report", "--json", "--brief", str(run)])
        assert found.structured_content == json.loads(report.out)
        assert json.loads(said(found)) == found.structured_content
    assert (tmp_path / "errors.txt").read_text() == ""


def test_stdout_holds_the_protocol_alone_and_trainings_end_with_the_client(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    (tmp_path / "endless.py").write_text(ENDLESS)
    server = RawClient(tmp_path, "--allow-run")
    listed = server.ask("tools/list", {})
    assert [tool["name"] for tool in listed["tools"]] == READING + RUNNING
    found = server.ask("tools/call", diagnose("noisy.py"))["structuredContent"]
    assert (found["exit_code"], found["steps"]) == (3, 0)
    output = (Path(found["path"]) / "output.log").read_text()
    assert '"result": {}}' in output
    assert "noise on stderr of a child" in output
    for wrong in ({"directory": "nowhere"}, {"python": "a\0b"}):
        call = diagnose("noisy.py")
        call["arguments"] |= wrong
        assert server.ask("tools/call", call)["isError"]
    # Its client goes away while a training runs.
    server.send("tools/call", diagnose("endless.py"))
    written = tmp_path / "checkpoint.txt"
    limit = time.monotonic() + 60
    while not written.exists():
        assert time.monotonic() < limit
        time.sleep(0.05)
    code, rest = server.close()
    assert (code, json.loads(rest)["error"]["message"]) == (0, "Connection closed")
    (root,) = (tmp_path / ".perftui" / "runs").glob("*-endless-*/")
    manifest = RunReader(root).poll().manifest
    assert (manifest.status.is_over, manifest.stop_reason) == (True, StopReason.USER)


async def test_a_trial_that_is_cancelled_stops_and_gives_files_back(
    run: Path, tmp_path: Path, opened: ExitStack
) -> None:
    checkpoint = tmp_path / "checkpoint.txt"
    checkpoint.write_text("mine")
    async with client_of(tmp_path, opened, "--allow-run") as client:
        async with anyio.create_task_group() as calls:
            calls.start_soon(client.call_tool, "try", {"max_steps": 60})
            await until(lambda: checkpoint.read_text() != "mine")
            busy = await client.call_tool("apply", {"path": str(run)})
            assert said(busy) == "try still runs: wait for its answer, or cancel it"
            calls.cancel_scope.cancel()
        await until(lambda: checkpoint.read_text() == "mine")
        # The server goes on.
        assert said(await client.call_tool("report", {"path": ""})) == "report: path is empty"
    (root,) = (tmp_path / ".perftui" / "trials").glob("*/*-train-*/")
    manifest = RunReader(root).poll().manifest
    assert (manifest.status.is_over, manifest.stop_reason) == (True, StopReason.USER)


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not holds():
            await anyio.sleep(0.05)


def diagnose(script: str) -> dict[str, Any]:
    return {"name": "diagnose", "arguments": {"command": [script]}}


class RawClient:
    """Writes and reads the protocol itself, so that nothing on stdout is passed over."""

    def __init__(self, place: Path, *options: str) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "perftui_tui", "mcp", *options],
            cwd=place,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._sent = 0
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
        self.ask("initialize", {**hello, "clientInfo": {"name": "test", "version": "1"}})

    def send(self, method: str, params: dict[str, Any]) -> None:
        self._sent += 1
        message = {"jsonrpc": "2.0", "id": self._sent, "method": method, "params": params}
        self._server.stdin.write(f"{json.dumps(message)}\n")
        self._server.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        self.send(method, params)
        answered = json.loads(self._server.stdout.readline())
        assert (answered["jsonrpc"], answered["id"]) == ("2.0", self._sent)
        return answered["result"]

    def close(self) -> tuple[int, str]:
        """The exit code, and what was still on stdout."""
        rest, _ = self._server.communicate()
        return self._server.returncode, rest
