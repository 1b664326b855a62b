"""Traces that are named by a URL hold what their copies on a disk hold."""

import base64
import itertools
import json
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest

from perftui.facts.ranks import traced_ranks
from perftui.trace import remote
from perftui.trace.model import LoadCancelled, TraceError
from perftui.trace.remote import fetch, is_url, mirror, remote_of, without_secrets
from perftui_tui.cli import main
from tests.core.diagnosis.test_straggler import computing
from tests.traces.builder import write_ranks

USER, PASSWORD = "ada", "s3cret"
CUT, CHANGED, REFUSED = "cut", "changed", "refused"
"""Files beside which a file of such an ending lies are sent in half, change, or are refused."""

_ALLOWED = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
_numbers = itertools.count()


class _Handler(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if self._may():
            path = Path(self.translate_path(self.path))
            if self._is(CUT):
                self.send_response(200)
                self.send_header("Content-Length", str(path.stat().st_size))
                self.end_headers()
                self.wfile.write(path.read_bytes()[: path.stat().st_size // 2])
            else:
                super().do_GET()

    def do_HEAD(self) -> None:
        if self._may():
            super().do_HEAD()

    def end_headers(self) -> None:
        if self._is(CHANGED):
            self.send_header("ETag", f'"{next(_numbers)}"')
        super().end_headers()

    def _may(self) -> bool:
        if self.headers.get("Authorization") != _ALLOWED:
            self.send_error(401)
            return False
        if self._is(REFUSED):
            self.send_error(403)
            return False
        return True

    def _is(self, what: str) -> bool:
        return Path(self.translate_path(self.path)).with_suffix(f".{what}").exists()

    def log_message(self, *_: object) -> None:
        """Tests read stderr."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of ``folder``, with the password in it."""
    handler = partial(_Handler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://{USER}:{PASSWORD}@127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


RANKS = 6

# aiohttp leaves what it closes to its loop, which fsspec runs on a thread of its own.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six ranks, of which the last but one comes late and one is damaged."""
    late = [400, 410, 405, 402, 700, 401]
    folder = write_ranks(tmp_path_factory.mktemp("far") / "", computing(*late, steps=6))
    damaged = '{"distributedInfo": {"rank": 1, "world_size": 6}, "traceEvents": [!!!]}'
    (folder / "rank1.pt.trace.json").write_text(damaged)
    return folder


@pytest.fixture
def memory(traces: Path) -> Iterator[str]:
    """The same in fsspec's memory."""
    store = fsspec.filesystem("memory")
    store.put(str(traces) + "/", "/far/traces/", recursive=True)
    yield "memory://far/traces"
    store.rm("/far", recursive=True)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where copies are put."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words]) == 0
    return capsys.readouterr().out


def fields(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return json.loads(output(capsys, *words, "--json"))


def test_a_directory_is_what_its_copy_is(
    memory: str, traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = output(capsys, "report", str(traces), "--json")
    there = output(capsys, "report", memory, "--json")
    assert there.replace(memory, str(traces)) == here
    found = json.loads(there)
    assert len(found["ranks"]["rows"]) == RANKS - 1
    unread = f"rank 1 cannot be read: {memory}/rank1.pt.trace.json holds no events"
    assert any(note.startswith(unread) for note in found["notes"])


def test_one_trace_and_any_rank_are_opened(
    memory: str, traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "rank2.pt.trace.json"
    there = output(capsys, "report", f"{memory}/{name}", "--json")
    here = output(capsys, "report", f"{traces}/{name}", "--json")
    assert there.replace(memory, str(traces)) == here
    assert fields(capsys, "report", memory, "--rank", "2")["path"] == f"{memory}/{name}"


def test_check_and_compare_take_urls(
    memory: str, traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = f"{memory}/rank5.pt.trace.json"
    for words in (["check", memory, "--json"], ["compare", memory, other]):
        there = main(words), capsys.readouterr().out
        here = main([word.replace(memory, str(traces)) for word in words]), capsys.readouterr().out
        assert (there[0], there[1].replace(memory, str(traces))) == here


def test_only_the_ends_are_read_until_a_trace_is_asked_for(
    memory: str, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "HEAD", 500)
    folder = mirror(memory)
    files = sorted(folder.iterdir())
    assert len(files) == RANKS
    whole = fsspec.filesystem("memory").cat_file("/far/traces/rank0.pt.trace.json")
    stood_in = files[0].read_bytes()
    assert len(stood_in) == len(whole)
    assert stood_in[:500] == whole[:500]
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert folder.is_relative_to(temporary)


def test_each_trace_is_deleted_once_it_is_read(memory: str, temporary: Path) -> None:
    folder = mirror(memory)
    before = sorted(temporary.rglob("*"))
    paths = tuple((rank, folder / f"rank{rank}.pt.trace.json") for rank in range(RANKS))
    for rank, found in traced_ranks.read_ranks(paths):
        assert isinstance(found, str) == (rank == 1)
        assert sorted(temporary.rglob("*")) == before
    assert all(remote_of(path) is not None for _, path in paths)


@pytest.mark.slow
@pytest.mark.subprocess
def test_processes_read_it_themselves(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = """
import sys
from perftui.facts.ranks import traced_ranks
traced_ranks.processes_for = lambda _: 2
from perftui_tui.cli import main
if __name__ == "__main__":
    sys.exit(main(["report", sys.argv[1], "--json"]))
"""
    (tmp_path / "script.py").write_text(script)
    command = [sys.executable, str(tmp_path / "script.py"), f"file://{traces}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.replace("file://", "") == output(capsys, "report", str(traces), "--json")


def test_a_web_server_gives_traces_and_its_password_is_not_shown(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = output(capsys, "report", str(traces), "--json")
    with served(traces) as url:
        there = output(capsys, "report", f"{url}/", "--json")
        signed = output(capsys, "report", f"{url}/rank0.pt.trace.json?signature={PASSWORD}")
    address = without_secrets(url)
    assert there.replace(address, str(traces)) == here
    assert PASSWORD not in there + signed
    assert signed.startswith(f"{address}/rank0.pt.trace.json\n")


@pytest.mark.parametrize(
    ("how", "why"),
    [
        (CUT, "cannot be read: Response payload is not completed"),
        (CHANGED, "has changed while it was read: run it again"),
        (REFUSED, "may not be read: 403"),
    ],
)
def test_what_goes_wrong_with_one_file_is_told_and_is_not_the_end(
    how: str, why: str, traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(traces, folder)
    (folder / f"rank3.pt.trace.{how}").touch()
    with served(folder) as url:
        found = fields(capsys, "report", f"{url}/")
    (told,) = [note for note in found["notes"] if "rank 3" in note]
    file = f"{without_secrets(url)}/rank3.pt.trace.json"
    assert told.startswith(f"rank 3 cannot be read: {file} {why}")
    assert PASSWORD not in str(found)
    assert len(found["ranks"]["rows"]) == RANKS - 2


def test_long_work_is_told_on_stderr(
    memory: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    for room in ("target", "report"):
        waiting = f"perftui_tui.commands.{room}.waiting"
        monkeypatch.setattr(waiting, lambda _: nullcontext(told.append))
    assert main(["report", memory, "--brief"]) == 0
    assert f"{memory}: {RANKS} of {RANKS} traces found" in told
    assert any(line.startswith(f"copying {memory}/rank0.pt.trace.json: ") for line in told)
    assert told[-1] == f"{RANKS} of {RANKS} ranks read"
    assert capsys.readouterr().err == ""


def refusal(url: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["report", url]) == 2
    return capsys.readouterr().err.removeprefix("perftui: ").removesuffix("\n")


def test_what_cannot_be_opened_is_told(memory: str, capsys: pytest.CaptureFixture[str]) -> None:
    absent = "memory://no contains no trace (*.json[.gz]), or is not there"
    assert refusal("memory://no/", capsys) == absent
    assert refusal(f"{memory}/none.json", capsys) == f"{memory}/none.json is not there"
    unknown = refusal("nosuch://x/y.json", capsys)
    assert unknown.startswith("nosuch://x/y.json cannot be read: Protocol not known")
    assert main(["report", memory, "--rank", "9"]) == 2
    assert f"{memory} holds no trace of rank 9" in capsys.readouterr().err
    fsspec.filesystem("memory").pipe_file("/far/traces/run.json", b"{}")
    assert refusal(memory, capsys).startswith(f"{memory} is a recorded run: copy it")


def test_a_server_that_refuses_is_told_without_the_password(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(traces) as url:
        address = without_secrets(url)
        assert refusal(f"{url}/none.json", capsys) == f"{address}/none.json is not there"
        wrong = url.replace(PASSWORD, "wr0ng")
        for name in ("/", "/rank0.pt.trace.json"):
            told = refusal(wrong + name, capsys)
            assert told.startswith(f"{address}{name} may not be read: 401")
            assert "wr0ng" not in told


def test_without_packages_it_is_said_what_to_install(
    memory: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    bucket = "s3://bucket/traces"
    assert refusal(bucket, capsys).startswith(f"{bucket} cannot be read: Install s3fs")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    assert refusal(memory, capsys) == "opening a URL needs fsspec: pip install 'perftui[remote]'"


def test_a_disk_without_room_and_a_cancelled_copy_leave_nothing(
    memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, target = f"{memory}/rank0.pt.trace.json", tmp_path / "copy"
    told: list[tuple[int, int]] = []
    fetch(url, target, lambda done, whole: told.append((done, whole)))
    size = target.stat().st_size
    assert told[-1] == (size, size)
    target.unlink()
    with pytest.raises(LoadCancelled):
        fetch(url, target, cancelled=lambda: True)
    assert not target.exists()
    monkeypatch.setattr(remote.shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(TraceError, match="name a larger directory in TMPDIR"):
        fetch(url, target)
    assert not target.exists()


def test_what_is_a_url_and_what_of_it_is_secret() -> None:
    assert is_url("s3://bucket/traces")
    assert is_url("HTTPS://host")
    assert not is_url("a/b.json")
    assert not is_url("c:/b.json")
    text = "https://ada:p@ss@host/a.json?X-Amz-Signature=1 and s3://bucket/b@c.json"
    assert without_secrets(text) == "https://host/a.json and s3://bucket/b@c.json"


@pytest.mark.subprocess
def test_fsspec_is_imported_for_urls_only(traces: Path) -> None:
    script = """
import sys
from perftui_tui.cli import main
main(sys.argv[1:])
print("fsspec" in sys.modules)
"""
    command = [sys.executable, "-c", script, "report", str(traces)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")
