"""Nothing of perftui connects to anything, but for a Dask cluster that is asked for."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guards.sources import imports, trees

CLIENTS = (
    *("http", "urllib.request", "urllib3", "requests", "httpx", "aiohttp", "ftplib", "smtplib"),
    *("telnetlib", "imaplib", "poplib", "nntplib", "xmlrpc", "ssl", "websockets", "paramiko"),
    *("socketserver", "zmq", "grpc", "sentry_sdk", "webbrowser"),
)
FROM = tuple(f"from {client.partition('.')[0]}" for client in CLIENTS)

WATCHED = """
import sys
def hook(event, args):
    if event == "socket.__new__" and args[1] not in (1,):
        sys.stderr.write(f"NETWORK {args}\\n")
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto"):
        sys.stderr.write(f"NETWORK {event}\\n")
sys.addaudithook(hook)
"""


def test_no_part_imports_a_network_client() -> None:
    found = [
        (file, name)
        for file, tree in trees(*(f"import {client}" for client in CLIENTS), *FROM)
        for name in imports(tree)
        if any(name == client or name.startswith(f"{client}.") for client in CLIENTS)
    ]
    assert found == []


def test_sockets_are_used_for_the_name_of_the_host_alone() -> None:
    used = {
        node.attr
        for _, tree in trees("socket")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "socket"
    }
    assert used == {"gethostname"}
    named = [
        name
        for _, tree in trees("from socket")
        for name in imports(tree)
        if name.startswith("socket.")
    ]
    assert named == []


def test_the_cluster_is_reached_from_one_file() -> None:
    found = {
        file
        for file, tree in trees("distributed")
        for name in imports(tree)
        if name == "distributed"
    }
    assert found == {"core/perftui/facts/ranks/parallel_reading.py"}


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_run_and_its_report_open_no_network_socket(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{WATCHED}\nprint('trained')\n")
    watched = tmp_path / "watched.py"
    watched.write_text(f"{WATCHED}\nfrom perftui_tui.cli import main\nsys.exit(main())\n")
    for words in (["--headless", "train.py"], ["report", "--json"], ["--version"]):
        ended = subprocess.run(
            [sys.executable, str(watched), *words],
            cwd=tmp_path,
            env={**os.environ, "PERFTUI_CACHE": "off"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        assert "NETWORK" not in ended.stderr


def test_the_watch_sees_a_socket() -> None:
    """Else the test above could not fail."""
    code = f"{WATCHED}\nimport socket\nsocket.socket(socket.AF_INET).close()\n"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "NETWORK" in ended.stderr
