"""`perftui report` where its input or its output is not an ordinary file."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from perftui_tui.cli import main
from tests.described import described
from tests.ran import Capture, Patch, ran
from tests.traces.events import cpu, gpu, write


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write(tmp_path / "trace.json", [gpu("gemm", 1, 5), cpu("aten::mm", 0, 9)])


def reported(*arguments: object, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "perftui_tui", "report", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PERFTUI_CACHE": "off", **environment},
    )


@pytest.mark.subprocess
def test_a_full_disk_is_said_in_one_line(trace: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "perftui_tui", "report", str(trace)],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert ended.returncode == 2
    assert ended.stderr == b"perftui: the output cannot be written: No space left on device\n"


def test_markdown_is_a_form_of_its_own(trace: Path, capsys: Capture) -> None:
    printed = ran(capsys, "report", "--markdown", "--top", "1", str(trace)).out
    assert printed.startswith("## ")
    assert re.search(r"^  gemm +1 ", printed, re.MULTILINE)
    for form in ("--json", "--brief"):
        assert main(["report", "--markdown", form, str(trace)]) == 2
        assert "--markdown is a form of its own" in capsys.readouterr().err
    metrics = trace.with_name("metrics.csv")
    metrics.write_text('"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n')
    assert main(["report", "--markdown", str(metrics)]) == 2


def test_html_is_one_private_file(trace: Path, capsys: Capture) -> None:
    page = trace.with_name("report.html")
    page.write_text("an older report")
    page.chmod(0o644)
    assert main(["report", str(trace), "--html", str(page), "--top", "1"]) == 0
    assert re.fullmatch(rf"{page} written, [\d.]+ KiB\n", capsys.readouterr().out)
    assert page.stat().st_mode & 0o777 == 0o600
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>\n")
    assert text.endswith("</html>\n")
    assert "aten::mm" in text
    assert [one.name for one in trace.parent.iterdir() if one.name.startswith(".")] == []


def test_html_never_takes_the_place_of_a_trace_and_says_why_it_cannot_be_written(
    trace: Path, capsys: Capture
) -> None:
    before = trace.read_bytes()
    assert main(["report", "--html", str(trace)]) == 2
    assert "--html needs a file to write that ends in .html" in capsys.readouterr().err
    assert trace.read_bytes() == before
    page = trace.with_name("no-such-folder") / "report.html"
    assert main(["report", str(trace), "--html", str(page)]) == 2
    assert f"{page} cannot be written: No such file or directory" in capsys.readouterr().err
    for form in ("--json", "--brief", "--markdown"):
        assert main(["report", str(trace), "--html", "report.html", form]) == 2
        assert "--html is a form of its own" in capsys.readouterr().err
    metrics = trace.with_name("metrics.csv")
    metrics.write_text('"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n')
    assert main(["report", "--html", "report.html", str(metrics)]) == 2
    assert "--html prints findings" in capsys.readouterr().err


def test_a_table_is_printed_with_all_rows(trace: Path, capsys: Capture, monkeypatch: Patch) -> None:
    assert main(["report", "--csv", "kernels", str(trace)]) == 0
    heading = "kernel or copy,category,calls,device (ns),shortest (ns),median (ns),longest (ns)\n"
    told = capsys.readouterr()
    assert told.out == heading + "gemm,kernel,1,5000,5000,5000,5000\n"
    assert told.err == ""
    told = ran(capsys, "report", "--csv", "modules", str(trace))
    assert told.out == "module,calls,own CPU (ns),total CPU (ns),device (ns)\n"
    assert told.err == "modules: the trace contains no calls of modules\n"


def test_names_in_a_table_are_exact_but_on_a_terminal(
    tmp_path: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    trace = write(tmp_path / "trace.json", [cpu("\x1b[2J=a", 0, 9)])
    assert "\n\x1b[2J=a,1," in ran(capsys, "report", "--csv", "operators", str(trace)).out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "\n\\x1b[2J=a,1," in ran(capsys, "report", "--csv", "operators", str(trace)).out


def test_stacks_are_printed(trace: Path, capsys: Capture) -> None:
    assert ran(capsys, "report", "--folded", str(trace)).out == "main thread;aten::mm 9000\n"
    kernels = write(trace.parent / "kernels.json", [gpu("gemm", 1, 5)])
    assert main(["report", "--folded", str(kernels)]) == 2
    assert "the trace contains neither operators nor Python" in capsys.readouterr().err


def test_a_trace_for_perfetto_is_written(trace: Path, capsys: Capture) -> None:
    out = trace.with_name("out.json.gz")
    told = ran(capsys, "report", "--perfetto", str(out), str(trace)).out
    assert told.startswith(f"{out}: all events of the trace, and tracks of perftui: GPU 0 idle (")
    assert "https://ui.perfetto.dev" in told
    assert out.read_bytes().startswith(b"\x1f\x8b")
    for path, why in (
        (trace, "is the trace that is read"),
        (trace.parent / "no" / "a.json", "cannot be written: No such file or directory"),
    ):
        assert why in ran(capsys, "report", "--perfetto", str(path), str(trace), code=2).err


@pytest.mark.parametrize(
    "form",
    [
        [],
        ["--markdown"],
        ["--json"],
        ["--brief"],
        ["--csv", "operators"],
        ["--folded"],
        ["--html", "out.html"],
        ["--perfetto", "out.json"],
    ],
    ids=lambda form: "".join(form[:1]) or "text",
)
def test_every_form_can_be_redacted(
    form: list[str], tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "home" / "grace-secret"
    folder.mkdir(parents=True)
    name = "read /home/grace-secret/data at 10.1.2.3"
    write(folder / "trace.json", [gpu("gemm", 1, 5), cpu(name, 0, 9)])
    printed = ran(capsys, "report", "--redact", *form, str(folder / "trace.json"))
    files = [path.read_text() for path in tmp_path.glob("out.*")]
    written = "".join([printed.out, printed.err, *files])
    assert "grace-secret" not in written
    assert "10.1.2.3" not in written
    assert "redacted" in written
    assert "host names" in written


def test_reports_of_other_files_are_redacted_too(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "home" / "grace-secret"
    folder.mkdir(parents=True)
    metrics = folder / "metrics.csv"
    metrics.write_text(
        '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
        '"0","gemm","gpu__time_duration.sum","nsecond","5"\n'
    )
    printed = ran(capsys, "report", "--redact", str(metrics)).out
    assert printed.startswith("redacted: user names")
    found = described("report", ran(capsys, "report", "--redact", "--json", str(metrics)).out)
    assert "host names" in found["redacted"]
    assert "grace-secret" not in f"{printed}{found}"


@pytest.mark.parametrize("form", [("--csv", "steps"), ("--folded",), ("--perfetto", "a.json")])
def test_other_files_have_no_tables(tmp_path: Path, capsys: Capture, form: tuple[str, ...]) -> None:
    metrics = tmp_path / "metrics.csv"
    metrics.write_text('"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n')
    assert main(["report", *form, str(metrics)]) == 2
    assert f"{form[0]} needs a run or a trace, and {metrics} is a" in capsys.readouterr().err


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_closed_stdout_is_said_in_one_line(
    trace: Path, capsys: Capture, monkeypatch: Patch, form: tuple[str, ...]
) -> None:
    """Where a process is started without a stdout, as by ``>&-``, Python has None for it."""
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["report", *form, str(trace)]) == 2
    said = "perftui: the output cannot be written: stdout is closed\n"
    assert capsys.readouterr().err == said


@pytest.mark.subprocess
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_terminal_of_ascii_shows_escapes_and_json_stays_utf8(
    trace: Path, form: tuple[str, ...]
) -> None:
    ascii_only = {"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "LC_ALL": "C"}
    out, err = reported(*form, trace, **ascii_only).communicate()
    assert err == b""
    if form:
        assert described("report", out.decode())["path"] == str(trace)
    else:
        assert "more: perftui report --full" in out.decode("ascii")


@pytest.mark.parametrize("command", [["report"], ["replay"]])
def test_a_pipe_is_refused_with_what_to_do(
    tmp_path: Path, capsys: Capture, command: list[str]
) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    assert "is a pipe or a device" in ran(capsys, *command, str(pipe), code=2).err


def test_files_that_may_not_be_read_are_said(
    trace: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    trace.rename(trace.with_name("other.json"))
    (trace.parent / "other.json").write_text("{}")
    monkeypatch.setattr(os, "access", lambda path, _mode: path.name != "other.json")
    assert main(["report", str(trace.parent)]) == 2
    assert "other.json cannot be read: permission denied" in capsys.readouterr().err


def test_a_directory_that_may_not_be_read_is_said(
    tmp_path: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    def refuse(_directory: Path) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path / "run.json"))

    monkeypatch.setattr("perftui_tui.commands.target.newest_run", refuse)
    assert main(["report", str(tmp_path)]) == 2
    assert capsys.readouterr().err.endswith("run.json cannot be read: Permission denied\n")
