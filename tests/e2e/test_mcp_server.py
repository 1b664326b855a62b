"""`perftui mcp` as a client starts it: a process, and the protocol on its stdin and stdout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent

from perftui.run.manifest import StopReason
from perftui.run.reader import RunReader
from tests.tui.in_process import printed
from tests.tui.recorded import ENDED, SCRIPT, START, write_run

pytestmark = [pytest.mark.subprocess, pytest.mark.usefixtures("start_sooner")]

READING = ["runs", "report", "table", "explain", "diff", "compare", "check"]
RUNNING = ["diagnose", "try", "apply", "undo"]

ENDLESS = """\
import time
import torch
open("checkpoint.txt", "w").write("of the trial")
time.sleep(300)
"""
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
    """A run of ``ENDLESS`` whose loader can be given workers, in the project ``tmp_path``."""
    script = tmp_path / "train.py"
    script.write_text(ENDLESS + SCRIPT)
    os.utime(script, ns=(START - 10**9, START - 10**9))
    return write_run(
        tmp_path / ".perftui" / "runs",
        script=script,
        loader_line=4 + ENDLESS.count("\n"),
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
    assert isinstance(content, TextContent)
    return content.text


async def test_a_client_gets_what_the_commands_print(
    run: Path, tmp_path: Path, opened: ExitStack
) -> None:
    answers: dict[str, Any] = {}

    async def call(client: Client, tool: str, path: Path) -> None:
        answers[tool] = await client.call_tool(tool, {"path": str(path)})

    async with client_of(tmp_path, opened) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == READING
        async with anyio.create_task_group() as calls:
            calls.start_soon(call, client, "report", run)
            calls.start_soon(call, client, "check", tmp_path / "train.py")
        report = printed(["report", "--json", "--brief", str(run)])
        assert answers["report"].structured_content == json.loads(report.out)
        assert answers["check"].is_error
        (line,) = printed(["check", str(tmp_path / "train.py")]).lines
        assert line == f"perftui: {said(answers['check'])}"
    assert (tmp_path / "errors.txt").read_text() == ""


def test_stdout_holds_the_protocol_alone_whatever_a_script_prints(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    server = subprocess.Popen(
        [sys.executable, "-m", "perftui_tui", "mcp", "--allow-run"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
    hello |= {"clientInfo": {"name": "test", "version": "1"}}
    call = {"name": "diagnose", "arguments": {"command": ["noisy.py"]}}
    for number, (method, params) in enumerate(
        (("initialize", hello), ("tools/list", {}), ("tools/call", call))
    ):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        server.stdin.write(f"{json.dumps(message)}\n")
        server.stdin.flush()
        answered = json.loads(server.stdout.readline())
        assert (answered["jsonrpc"], answered["id"]) == ("2.0", number)
        if method == "tools/list":
            names = [tool["name"] for tool in answered["result"]["tools"]]
            assert names == READING + RUNNING
    found = answered["result"]["structuredContent"]
    assert (found["exit_code"], found["steps"]) == (3, 0)
    output = (Path(found["path"]) / "output.log").read_text()
    assert '"result": {}}' in output
    assert "noise on stderr of a child" in output
    rest, _ = server.communicate()
    assert (rest, server.returncode) == ("", 0)


async def test_a_trial_that_nobody_waits_for_stops_and_gives_files_back(
    run: Path, tmp_path: Path, opened: ExitStack
) -> None:
    """It is cancelled by its client, and another ends because the client goes away."""
    checkpoint = tmp_path / "checkpoint.txt"
    checkpoint.write_text("mine")
    async with (
        anyio.create_task_group() as outside,
        client_of(tmp_path, opened, "--allow-run") as client,
    ):
        async with anyio.create_task_group() as calls:
            calls.start_soon(try_it, client)
            await until(lambda: checkpoint.read_text() != "mine")
            busy = await client.call_tool("apply", {"path": str(run)})
            assert said(busy) == "try still runs: wait for its answer, or cancel it"
            calls.cancel_scope.cancel()
        await until(lambda: checkpoint.read_text() == "mine")
        # The server goes on.
        known = await client.call_tool("explain", {"name": "loader-workers"})
        assert not known.is_error
        outside.start_soon(try_it, client)
        await until(lambda: checkpoint.read_text() != "mine")
    await until(lambda: checkpoint.read_text() == "mine")
    trials = sorted((tmp_path / ".perftui" / "trials").glob("*/*-train-*/"))
    manifests = [RunReader(root).poll().manifest for root in trials]
    assert [one.stop_reason for one in manifests] == [StopReason.USER] * 2
    assert all(one.status.is_over for one in manifests)


async def try_it(client: Client) -> None:
    with pytest.raises(MCPError, match="closed"):
        await client.call_tool("try", {"max_steps": 60})


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not holds():
            await anyio.sleep(0.05)
