"""The command line, and what cannot be meant together."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from perftui.run.columns import STACK_RATE
from perftui.run.layout import RunLayout
from perftui.run.manifest import read_manifest, write_manifest
from perftui.trace.ncu import KernelMetrics
from perftui_tui.app import PerftuiApp
from perftui_tui.cli import main
from perftui_tui.commands.farewell import farewell
from perftui_tui.commands.line import CommandLine, UsageError, parse
from perftui_tui.commands.output import log, waiting
from perftui_tui.commands.run import launch_of
from perftui_tui.commands.show import show, why_no_screen
from perftui_tui.commands.table import COMMANDS
from perftui_tui.commands.target import Target
from perftui_tui.demo import trainings
from tests.core.report.test_special_reports import three_lines, write_metrics, write_snapshot
from tests.described import described
from tests.ran import Capture, Patch, ran
from tests.tui.recorded import write_run
from tests.tui.traces import write_trace


def test_everything_after_the_script_the_module_or_the_command_is_its_own() -> None:
    line = parse(["--window", "3", "--stacks", "train.py", "--window", "9", "-m", "--help"])
    assert line == CommandLine(
        "script",
        ("train.py", "--window", "9", "-m", "--help"),
        frozenset({"stacks"}),
        {"window": 3},
    )
    line = parse(["--python=/usr/bin/python3", "-m", "pkg.train", "--headless"])
    assert (line.action, line.words) == ("module", ("pkg.train", "--headless"))
    assert line.values == {"python": "/usr/bin/python3"}
    line = parse(["--", "torchrun", "--nproc", "2", "train.py"])
    assert (line.action, line.words) == ("command", ("torchrun", "--nproc", "2", "train.py"))


@pytest.mark.parametrize(
    "name", ["a.json", "b.pt.trace.json.gz", "C.JSON", "d.sqlite", "e.nsys-rep", "f.trace", "g.db"]
)
def test_a_trace_or_a_directory_is_replayed(name: str, tmp_path: Path) -> None:
    assert parse([name]).action == "replay"
    assert parse(["diagnose", name, "--brief"]).action == "report"
    assert parse([str(tmp_path)]).action == "replay"


def test_commands_take_options_after_their_name() -> None:
    line = parse(["report", "run-1", "--json"])
    assert (line.action, line.words, line.flags) == ("report", ("run-1",), frozenset({"json"}))


@pytest.mark.parametrize(
    ("options", "first", "count"),
    [
        ([], None, None),
        (["--window", "3"], None, 3),
        (["--steps", "100"], 100, None),
        (["--steps", "100", "--window", "3"], 100, 3),
        (["--steps=100-104"], 100, 5),
        (["--steps", "7-7"], 7, 1),
    ],
)
def test_steps_are_named_by_the_first_and_the_last(
    options: list[str], first: int | None, count: int | None
) -> None:
    assert parse([*options, "x.py"]).steps() == (first, count)


def test_the_number_of_steps_is_not_said_twice() -> None:
    with pytest.raises(UsageError, match="drop --window"):
        parse(["--steps", "1-5", "--window", "3", "x.py"]).steps()


@pytest.mark.parametrize(("text", "share"), [("0.5%", 0.005), ("2", 0.02), ("100%", 1.0)])
def test_the_budget_is_given_in_per_cent(text: str, share: float) -> None:
    assert parse(["--overhead", text, "x.py"]).values["overhead"] == share


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--headles", "x.py"], "unknown option --headles. Did you mean --headless? See perftui"),
        (["-x", "x.py"], "unknown option -x"),
        (["--window"], "--window needs a value"),
        (["--window", "two", "x.py"], "whole number above 0, not 'two'"),
        (["--window", "0", "x.py"], "whole number above 0"),
        (["--steps", "9-8", "x.py"], "such as 100 or 100-104, not '9-8'"),
        (["--steps", "0", "x.py"], "--steps needs a step or two"),
        (["--stack-rate", "101", "x.py"], "needs a whole number from 0 to 100, not '101'"),
        (["--stack-rate", "often", "x.py"], "not 'often'"),
        (["--overhead", "0%", "x.py"], "--overhead needs per cent of the run"),
        (["--overhead", "101", "x.py"], "not '101'"),
        (["--overhead", "little", "x.py"], "such as 0.5%"),
        (["a.json", "--rank", "-1"], "--rank needs a whole number, not '-1'"),
        (["--theme", "pink", "x.py"], "There are dark, light, contrast, ansi"),
        (["--stacks=yes", "x.py"], "takes no value"),
        (
            ["report", "--csv", "ops"],
            "no table 'ops'. There are operators, kernels, modules, rates, steps, gaps, findings",
        ),
        (["report", "--csv"], "--csv needs a value"),
        (["report", "--csv", "steps", "--json"], "--csv is a form of its own: drop --json"),
        (["report", "--folded", "--brief"], "--folded is a form of its own: drop --json"),
        (["report", "--csv", "steps", "--folded"], "--csv is a form of its own: drop --folded"),
        (["report", "--perfetto", "a.json", "--markdown"], "own: drop --perfetto"),
        (["report", "--perfetto", "trace.pb"], "ends in .json or .json.gz, not 'trace.pb'"),
        (["report", "--perfetto", "a.json", "--top", "3"], "makes no use of --top: drop it"),
        (["report", "--csv", "kernels", "--ncu", "k.csv"], "makes no use of --ncu: drop it"),
        (["compare", "A", "B", "--csv", "steps"], "--csv belongs to report and diagnose"),
        (["--folded", "x.py"], "--folded belongs to report and diagnose"),
        (["compare", "A", "B", "--redact"], "--redact belongs to report and diagnose"),
        (
            ["schema", "report", "--nvtx", "--window", "5"],
            "--nvtx belongs to perftui SCRIPT, diagnose and demo, not to schema",
        ),
        (["--json", "x.py"], "--json belongs to replay, report, diagnose, try"),
        (["report", "--jsn"], "Did you mean --json? See perftui report --help"),
        (["skill", "x"], "unexpected 'x'; usage: perftui skill"),
        (["--headless"], "no script given"),
        (["-m"], "-m needs a module"),
        (["--"], "-- needs a command"),
    ],
)
def test_errors_say_what_to_do(arguments: list[str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(arguments)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian.py"], "no such script: trian.py. Did you mean train.py?"),
        (["diagnose", "trian.py"], "no such script: trian.py. Did you mean train.py?"),
        (["reprot", "x"], "no such command or script: reprot. Did you mean report?"),
        (["what"], "no such command or script: what. Name a script as you would for python."),
        (["report", "damged"], "no such file: damged, and no run 'damged' in"),
        (["report", "damged"], "runs. Did you mean damaged?"),
        (["try", "loader-wrkers"], "no fix is called loader-wrkers. Did you mean loader-workers?"),
        (["apply", "faster", "RUN"], "no fix is called faster. perftui report lists fixes."),
        (["explain", "lanch-bound"], "lanch-bound. Did you mean launch-bound?"),
        (["schema", "reprt"], "no command reprt prints JSON. Did you mean report?"),
        (["demo", "--scenario", "anomly"], "no scenario 'anomly'. Did you mean anomaly?"),
        (["demo", "--scenario", "x"], "There are anomaly, "),
        (["replay", "nothing.json"], "no such file: nothing.json"),
        (["replay", "a", "b"], "unexpected 'b'"),
        (["replay", "train.py"], "is a script"),
        (["empty.json"], "is empty"),
        (["report", "words.json"], "words.json"),
        (["replay", "damaged"], "damaged"),
        (["replay"], "no recorded run"),
        (["demo", "fast"], "unexpected 'fast'; usage: perftui demo"),
        (["--python", "/no/python", "train.py"], "there is no such interpreter"),
        (["--", "no-such-command-anywhere"], "command not found"),
    ],
)
def test_our_errors_are_one_line_and_code_2(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "words.json").write_text("these are not events")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "run.json").write_text("{")
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("perftui: ")
    assert captured.err.count("\n") == 1
    assert words in captured.err


def test_runs_are_listed(tmp_path: Path, monkeypatch: Patch, capsys: Capture) -> None:
    write_run(tmp_path, status="exited", exit_code=3)
    (tmp_path / "broken").mkdir()
    output = ran(capsys, "runs", "--runs", str(tmp_path)).out
    assert "20231114-221320-train" in output
    assert "exited 3" in output
    assert "damaged" in output


@pytest.mark.parametrize("named", ["", ".perftui/runs"])
def test_runs_of_another_directory_are_listed(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture, named: str
) -> None:
    write_run(tmp_path / "here" / ".perftui" / "runs", run_id="20231114-000000-here")
    write_run(tmp_path / "there" / ".perftui" / "runs", run_id="20231114-000000-there")
    monkeypatch.chdir(tmp_path / "here")
    listed = ran(capsys, "runs", str(tmp_path / "there" / named)).out
    assert "-there" in listed
    assert "-here" not in listed
    assert "nowhere is not a directory" in ran(capsys, "runs", "nowhere", code=2).err
    assert "unexpected" in ran(capsys, "runs", ".", ".", code=2).err


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ZeroDivisionError("a bug of ours")])
def test_what_ends_the_app_before_it_begins_leaves_the_terminal_and_says_what_goes_on(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture, error: BaseException
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("perftui_tui.app.PerftuiApp.__init__", broken)
    run = write_run(tmp_path / "runs")
    code = show(run, CommandLine("replay"), is_replay=False)
    printed = capsys.readouterr()
    assert code == (130 if isinstance(error, KeyboardInterrupt) else 70)
    assert printed.out.endswith("\x1b[?1049l")
    assert "train.py is still running" in printed.err
    assert f"perftui attach {run}" in printed.err


def test_a_run_that_has_vanished_is_code_2(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    run = write_run(tmp_path / "runs")
    monkeypatch.setattr("perftui_tui.app.PerftuiApp.run", lambda _: shutil.rmtree(run))
    assert show(run, CommandLine("replay"), is_replay=False) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_the_newest_run_of_a_project_is_reported(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    run = write_run(tmp_path / ".perftui" / "runs", status="exited", exit_code=0)
    (run.parent / "20991231-235959-train-ffff").mkdir()
    monkeypatch.chdir(tmp_path)
    assert run.name in ran(capsys, "report", ".").out


def write_ranks(directory: Path) -> None:
    directory.mkdir()
    for rank in (3, 1):
        trace = write_trace(directory, steps=rank)
        trace.rename(directory / f"rank{rank}.json")


@pytest.mark.parametrize("command", [["report"], ["replay"], []])
def test_a_rank_of_a_directory_is_reported(
    tmp_path: Path, capsys: Capture, command: list[str]
) -> None:
    write_ranks(tmp_path / "log")
    lowest = ran(capsys, *command, "--full", str(tmp_path / "log")).out
    assert lowest.startswith(str(tmp_path / "log" / "rank1.json"))
    assert "2 ranks; this is rank 1 by the file's name, --rank N opens another" in lowest
    assert main([*command, "--full", str(tmp_path / "log"), "--rank", "3"]) == 0
    assert capsys.readouterr().out.startswith(str(tmp_path / "log" / "rank3.json"))


def test_the_app_is_told_of_all_ranks(tmp_path: Path, monkeypatch: Patch) -> None:
    write_ranks(tmp_path / "log")
    started: list[PerftuiApp] = []
    monkeypatch.setattr("perftui_tui.commands.show.why_headless", lambda _: None)
    monkeypatch.setattr("perftui_tui.app.PerftuiApp.run", lambda app: started.append(app))
    assert main([str(tmp_path / "log"), "--rank", "3"]) == 0
    (app,) = started
    assert app.target == tmp_path / "log" / "rank3.json"
    assert [file.rank for file in app.ranks] == [1, 3]
    assert "this is rank 3" in app.notes[0]


def test_which_of_several_runs_is_opened_is_said(tmp_path: Path, monkeypatch: Patch) -> None:
    runs = tmp_path / ".perftui" / "runs"
    names = ("20231114-000000-train-aaaa", "20231115-000000-train-bbbb")
    first, newest = (write_run(runs, run_id=name) for name in names)
    started: list[PerftuiApp] = []
    monkeypatch.setattr("perftui_tui.commands.show.why_headless", lambda _: None)
    monkeypatch.setattr("perftui_tui.app.PerftuiApp.run", lambda app: started.append(app))
    assert [main(["replay", str(path)]) for path in (tmp_path, first)] == [0, 0]
    assert [app.target for app in started] == [newest, first]
    said = f"this is {newest.name}, the newest of 2 runs; Runs opens the others"
    assert [app.notes for app in started] == [(said,), ()]


def test_what_is_waited_for_is_told_on_a_terminal_in_one_line(
    monkeypatch: Patch, capsys: Capture
) -> None:
    def told(until: str) -> str:
        printed = ""
        while until not in printed:
            time.sleep(0.01)
            printed += capsys.readouterr().err
        return printed

    for name in ("SHORT_WAIT_S", "REWRITE_S", "TELL_EVERY_S"):
        monkeypatch.setattr(f"perftui_tui.commands.output.{name}", 0.01)
    with waiting("reading") as tell:
        assert told("reading, 0 s\n").startswith("reading, 0 s\n")
        tell("judging")
        told("judging, 0 s\n")
    monkeypatch.setattr("perftui_tui.commands.output._rewrites", lambda: True)
    with waiting(lambda: "pair 2"):
        told("\r\x1b[Kpair 2")
        log("a line of its own")
        told("\r\x1b[Ka line of its own\n")
        assert "\n" not in told("\r\x1b[Kpair 2")
    assert capsys.readouterr().err.endswith("\r\x1b[K")


def test_the_trainings_of_the_demo_are_listed(capsys: Capture) -> None:
    lines = ran(capsys, "demo", "--list").out.splitlines()
    assert [line.split()[0] for line in lines] == list(trainings())
    assert all(len(line) <= 80 for line in lines)


def test_a_rank_that_is_not_there_is_said(tmp_path: Path, capsys: Capture) -> None:
    write_ranks(tmp_path / "log")
    assert main(["report", str(tmp_path / "log"), "--rank=2"]) == 2
    assert "no trace of rank 2; there are 1, 3" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "log" / "rank1.json"), "--rank=1"]) == 2
    assert "--rank needs a directory of traces" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["report"], ["replay"], []])
def test_snapshots_and_metrics_are_reported_whatever_they_are_called(
    tmp_path: Path, capsys: Capture, command: list[str]
) -> None:
    saved = write_snapshot(tmp_path / "mem", three_lines())
    metrics = write_metrics(tmp_path / "kernels.csv", [("gemm", "1000", "80", "30", "50")])
    assert "Held at the end, by line" in ran(capsys, *command, str(saved)).out
    assert "1 kernel, 1 launch" in ran(capsys, *command, str(metrics)).out
    if command:
        assert main([*command, str(metrics), "--json"]) == 0
        assert described("report", capsys.readouterr().out)["kind"] == "kernel_metrics"


def test_in_a_terminal_too_metrics_are_reported(tmp_path: Path, monkeypatch: Patch) -> None:
    write_metrics(tmp_path / "k.csv", [("gemm", "1000", "80", "30", "50")])
    monkeypatch.setattr("perftui_tui.commands.show.why_headless", lambda _: None)
    line = CommandLine("replay")
    reason = why_no_screen(Target(tmp_path / "k.csv"), line)
    assert "no screen for a report of Nsight" in reason
    saved = write_snapshot(tmp_path / "mem", three_lines())
    assert why_no_screen(Target(saved), line) is None
    trace = write_trace(tmp_path)
    assert why_no_screen(Target(trace), line) is None
    assert why_no_screen(Target(trace), CommandLine("replay", values={"ncu": "k.csv"})) is None


def test_metrics_go_to_the_app(tmp_path: Path, monkeypatch: Patch) -> None:
    given: list[KernelMetrics | None] = []
    metrics = write_metrics(tmp_path / "k.csv", [("gemm", "1000", "80", "30", "50")])
    monkeypatch.setattr("perftui_tui.commands.show.why_headless", lambda _: None)
    monkeypatch.setattr(
        "perftui_tui.commands.show.show", lambda *_, **named: given.append(named["metrics"]) or 0
    )
    trace = write_trace(tmp_path)
    assert main([str(trace)]) == 0
    assert main([str(trace), "--ncu", str(metrics)]) == 0
    assert given[0] is None
    assert [launch.name for launch in given[1].launches] == ["gemm"]
    assert main([str(trace), "--ncu", str(tmp_path / "none.csv")]) == 2
    assert len(given) == 2


def test_metrics_are_joined_to_a_trace(tmp_path: Path, capsys: Capture) -> None:
    trace = str(write_trace(tmp_path))
    saved = str(write_snapshot(tmp_path / "mem", three_lines()))
    metrics = str(write_metrics(tmp_path / "k.csv", [("gemm", "1000", "80", "30", "50")]))
    assert main(["report", trace, "--ncu", metrics]) == 0
    assert "What limits the kernels, longest first" in capsys.readouterr().out
    for arguments, words in (
        ([trace, "--ncu", saved], "is not CSV from ncu"),
        ([trace, "--ncu", "none.csv"], "cannot read none.csv"),
        ([saved, "--ncu", metrics], "is a memory snapshot"),
    ):
        assert words in ran(capsys, "report", *arguments, code=2).err


def test_a_script_stays_a_script_whatever_it_holds_or_is_called(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    write_metrics(tmp_path / "train.py", [("gemm", "1000", "80", "30", "50")])
    assert parse([str(tmp_path / "train.py")]).action == "script"
    (tmp_path / "train").write_text("#!/usr/bin/env python\n")
    assert parse([str(tmp_path / "train")]).action == "script"
    (tmp_path / "demo").write_text("print('mine')")
    monkeypatch.chdir(tmp_path)
    assert "./demo" in parse(["demo"]).note
    assert parse(["./demo"]).action == "script"


def test_no_control_character_of_a_run_reaches_the_terminal(
    tmp_path: Path, capsys: Capture
) -> None:
    layout = RunLayout(write_run(tmp_path, status="exited", exit_code=3))
    evil = "train\x1b]0;owned\x07.py"
    manifest = replace(read_manifest(layout.manifest), command=("python", evil), message=evil)
    write_manifest(layout.manifest, manifest)
    layout.output.write_bytes(b"\x1b]52;c;eA==\x07fine\n")
    farewell(layout.root, is_replay=False)
    main(["runs", "--runs", str(tmp_path)])
    captured = capsys.readouterr()
    assert "owned" in captured.err
    assert "owned" in captured.out
    assert not set("\x1b\x07") & set(captured.err + captured.out)


def run_perftui(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "perftui_tui", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=60,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )


@pytest.mark.subprocess
def test_without_a_terminal_the_script_runs_as_it_is(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text("import sys\nprint('result', sys.argv[1:])\nsys.exit(7)\n")
    result = run_perftui("job.py", "--lr", "0.1", cwd=tmp_path)
    assert result.returncode == 7
    assert result.stdout == "result ['--lr', '0.1']\n"
    assert "not a terminal" in result.stderr


@pytest.mark.subprocess
def test_the_command_does_not_import_what_pythonpath_holds_for_the_script(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    for name in ("typing", "textwrap", "msgspec"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "job.py").write_text("print('result')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    result = run_perftui("--headless", "job.py", cwd=tmp_path / "job")
    assert (result.returncode, result.stdout) == (0, "result\n")
    assert "wrong module" not in result.stderr


@pytest.mark.subprocess
def test_a_syntax_error_is_the_scripts_own(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def train(:\n")
    result = run_perftui("--headless", "broken.py", cwd=tmp_path)
    assert result.returncode == 1
    assert "SyntaxError" in result.stderr
    assert "perftui:" not in result.stderr


def test_how_often_the_main_thread_is_looked_at_can_be_said(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.py").touch()
    python = ["--python", sys.executable]
    assert launch_of(parse([*python, "x.py"])).stack_samples_per_second == STACK_RATE
    assert launch_of(parse([*python, "--stack-rate", "50", "x.py"])).stack_samples_per_second == 50
    assert launch_of(parse([*python, "--stack-rate", "0", "x.py"])).stack_samples_per_second == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_fits_a_screen_and_has_its_own_options(
    name: str, capsys: Capture
) -> None:
    lines = ran(capsys, name, "--help").out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(f"usage: perftui {name}")
    assert any(line.startswith("Exit code: ") for line in lines)
    named = {word.strip(",.") for line in lines for word in line.split() if word[:2] == "--"}
    assert {f"--{option}" for option in COMMANDS[name].options} <= named | {"--"}
    assert all(parse(shlex.split(one)[1:]) for one in COMMANDS[name].examples if ">" not in one)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("perftui rep", "replay report"),
        ("perftui report --m", "--markdown"),
        ("perftui try loader-w", "loader-workers"),
        ("perftui check --fail-on w", "warning"),
        ("perftui --headless tr", "try train.py"),
    ],
)
def test_the_shell_completes_what_was_begun(
    words: str, expected: str, tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("_PERFTUI_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    found = [line.partition(",")[2] for line in ran(capsys).out.splitlines()]
    assert " ".join(found) == expected


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.touch()
    return str(path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--no-profile --shapes", "--no-profile records no windows, and --shapes needs them"),
        ("--no-profile --modules", "and --modules needs them: drop one"),
        ("--no-profile --window 3", "and --window needs them"),
        ("--steps 10-12 --no-profile", "and --steps needs them"),
        ("--no-profile --nsys", "and --nsys needs them"),
        ("--nsys --memory", "--memory needs torch's profiler, which --nsys"),
        ("--nsys --stacks", "--stacks needs torch's profiler"),
        ("--steps 100 --max-steps 50", "ends the training before step 100 of --steps:"),
        ("--steps 50-52 --max-steps 50", "let it run longer, or name an earlier step"),
    ],
)
def test_what_contradicts_is_refused_with_what_to_do(script: str, words: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        launch_of(parse([*words.split(), script]))


@pytest.mark.parametrize(
    "words",
    [
        "--no-profile --memory-snapshot --max-steps 5 --overhead 2%",
        "--steps 49 --max-steps 50 --shapes --stacks --memory --modules --nvtx",
        "--window 3 --memory-snapshot",
    ],
)
def test_what_goes_together_is_accepted(script: str, words: str) -> None:
    options = launch_of(parse([*words.split(), script])).options

    for word in words.split():
        if word in ("--shapes", "--stacks", "--memory", "--modules", "--memory-snapshot"):
            assert getattr(options, word[2:].replace("-", "_")) is True


def test_nsys_that_is_not_there_is_said_before_anything_starts(
    script: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="nsys not found; install Nsight Systems"):
        launch_of(parse(["--nsys", script]))


def test_nsys_can_mark_modules(script: str, tmp_path: Path, monkeypatch: Patch) -> None:
    fake = tmp_path / "nsys"
    fake.write_text("#!/bin/sh\necho Version 2024.1.1 --capture-range-end repeat\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    options = launch_of(parse(["--nsys", "--modules", script])).options

    assert (options.nsys, options.modules) == (True, True)
