"""Every option and every command, once: the command line and what `--help` prints."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import NamedTuple

COMPLETE = "_PERFTUI_COMPLETE"
"""The variable by which a shell asks for completions."""


class Option(NamedTuple):
    """An option: a flag, or one that takes a value."""

    name: str
    value: str
    """The name of its value; empty for a flag."""
    about: str
    words: tuple[str, ...] = ()
    """The allowed values, if they are a few words."""


class Command(NamedTuple):
    """A command, with what a person needs to use it."""

    name: str
    takes: str
    """What may follow its name, as it is shown."""
    about: str
    options: tuple[str, ...]
    examples: tuple[str, str]
    most: int = 1
    """Most words that may follow."""


OPTIONS = {
    option.name: option
    for option in (
        Option("python", "PATH", "interpreter of the script (default: the first with torch)"),
        Option("runs", "DIR", "where runs are kept (default: .perftui/runs)"),
        Option("headless", "", "no app, only what is printed"),
        Option("no-profile", "", "time the steps, but profile no windows"),
        Option("window", "N", "steps in each profiled window (default: 50 ms, at most 10)"),
        Option("steps", "A[-B]", "profile one window, from step A (to B)"),
        Option("overhead", "P", "budget in per cent of the run, with windows (default 1%)"),
        Option("shapes", "", "record the input shapes of operators in windows"),
        Option("stacks", "", "record Python stacks in windows"),
        Option("memory", "", "record allocations in windows"),
        Option("modules", "", "mark module calls in windows, at 3 us each"),
        Option(
            "memory-snapshot",
            "",
            "save GPU allocations at the memory peak and when memory runs out; torch takes 2 us "
            "for each allocation of the whole run",
        ),
        Option("syncs", "", "count calls that wait for the GPU in windows, by line"),
        Option("stack-rate", "N", "stack samples a second, by py-spy (default 10; 0: none)"),
        Option("nsys", "", "record the windows with Nsight Systems, with NVTX ranges"),
        Option("nvtx", "", "mark phases as NVTX ranges, for your own nsys"),
        Option("max-steps", "N", "end the training after N training steps"),
        Option("rank", "N", "the rank to open, of a directory of traces or a run"),
        Option("ncu", "FILE", "add what limits each kernel, from CSV of Nsight Compute"),
        Option(
            "theme",
            "NAME",
            "dark (default), light, contrast, ansi",
            ("dark", "light", "contrast", "ansi"),
        ),
        Option("ascii", "", "draw with ASCII only"),
        Option("top", "N", "rows in each table (default: 10 in text, all in JSON)"),
        Option("json", "", "print JSON"),
        Option("full", "", "print all of the text: evidence, tables, what was not judged"),
        Option("brief", "", "at most 2,000 bytes"),
        Option("markdown", "", "print Markdown, for a pull request"),
        Option("html", "FILE", "write one HTML file with charts, for a mail"),
        Option("csv", "TABLE", "operators, kernels, modules, rates, steps, gaps, findings as CSV"),
        Option("folded", "", "print folded stacks, for flamegraph.pl or speedscope"),
        Option("perfetto", "FILE", "write the trace with our tracks, for ui.perfetto.dev"),
        Option("redact", "", "leave out names of users and hosts, paths, addresses, keys"),
        Option("scheduler", "ADDR", "let a Dask cluster read a directory of ranks"),
        Option("path", "DATA", "measure the disk that holds DATA (default: this directory)"),
        Option("budget", "TIME", "start no further fix after this time (90s, 15m, 2h)"),
        Option("trust", "", "run the command of a run you did not record, and write to its source"),
        Option("dry-run", "", "show the change, write or delete nothing"),
        Option("no-repeats", "", "only the two runs, without others of the same command"),
        Option(
            "fail-on",
            "LEVEL",
            "critical (default), warning, info, none; with --against, only findings that the "
            "baseline does not have",
            ("critical", "warning", "info", "none"),
        ),
        Option(
            "against",
            "BASE",
            "compare with this run or trace, the newest earlier run of the same command (newest), "
            "or all of them (history)",
        ),
        Option("max-regression", "P", "how much slower a step may be (default 5%)"),
        Option("inconclusive", "W", "pass (default) or fail if not certain", ("pass", "fail")),
        Option("junit", "FILE", "also write JUnit XML"),
        Option("github", "", "also print annotations for GitHub Actions"),
        Option("allow-run", "", "also offer diagnose, try, apply and undo"),
        Option("scenario", "NAME", "another slow training; --list shows which there are"),
        Option("list", "", "print the trainings, one a line"),
        Option("prune", "", "delete the runs that exceed all given limits"),
        Option("older-than", "TIME", "runs that ended longer ago (12h, 30d, 8w)"),
        Option("keep", "N", "all but the newest N"),
        Option("max-size", "SIZE", "the oldest, until the rest takes no more (500M, 5G)"),
    )
}

RECORDING = (
    *("python", "runs", "no-profile", "window", "steps", "overhead", "shapes", "stacks", "memory"),
    *("modules", "memory-snapshot", "syncs", "stack-rate", "nsys", "nvtx", "max-steps"),
)
APP = ("headless", "theme", "ascii")
REPORT = (
    *("full", "top", "json", "brief", "markdown", "html", "csv", "folded", "perfetto", "redact"),
    "trust",
)

RUN = Command(
    "SCRIPT",
    "",
    "run a training script and watch it",
    (*RECORDING, *APP),
    ("perftui train.py --lr 0.1", "perftui -- torchrun --nproc-per-node 2 train.py"),
)

COMMANDS = {
    command.name: command
    for command in (
        Command(
            "replay",
            "[PATH or RUN]",
            "open a trace or a run (default: the newest run)",
            ("runs", "rank", "ncu", *APP, "full", "json", "brief", "markdown", "top", "trust"),
            ("perftui replay", "perftui replay trace.json.gz --ncu kernels.csv"),
        ),
        Command(
            "attach",
            "[RUN]",
            "watch a running training (default: the newest)",
            ("runs", *APP),
            ("perftui attach", "perftui attach 7729"),
        ),
        Command(
            "report",
            "[PATH or RUN]",
            "print the diagnosis of a run, trace or memory snapshot",
            ("runs", "rank", "ncu", "scheduler", *REPORT),
            ("perftui report --full", "perftui report trace.json.gz --html report.html"),
        ),
        Command(
            "diagnose",
            "SCRIPT [ARGS...] | -m MODULE | -- COMMAND | RUN | TRACE",
            "run a training without the app and print the report",
            (*RECORDING, *REPORT),
            (
                "perftui diagnose --brief --max-steps 200 train.py --lr 0.1",
                "perftui diagnose RUN --json   run the training of a run again",
            ),
        ),
        Command(
            "try",
            "[FIX] [RUN]",
            "measure a fix with pairs of runs, with it and without",
            ("runs", "max-steps", "json", "brief", "trust"),
            ("perftui try", "perftui try loader-workers --max-steps 100"),
            most=2,
        ),
        Command(
            "tune",
            "[RUN]",
            "try all fixes one by one and keep those that are proven",
            ("runs", "max-steps", "budget", "json", "trust"),
            ("perftui tune", "perftui tune --budget 30m"),
        ),
        Command(
            "isolate",
            "[RUN]",
            "bound the cost of data loading, output and everything else",
            ("runs", "max-steps", "json", "trust"),
            ("perftui isolate", "perftui isolate --max-steps 100 --json"),
        ),
        Command(
            "apply",
            "[FIX] [RUN]",
            "write a fix to the source",
            ("runs", "dry-run", "json", "trust"),
            ("perftui apply --dry-run", "perftui apply loader-workers"),
            most=2,
        ),
        Command(
            "undo",
            "[RUN]",
            "undo the last fix that was written",
            ("runs", "dry-run", "json", "trust"),
            ("perftui undo", "perftui undo --dry-run"),
        ),
        Command(
            "compare",
            "BEFORE AFTER | BEFORE... -- AFTER...",
            "compare two runs or traces, or several runs each",
            ("runs", "rank", "no-repeats", "json", "brief"),
            ("perftui compare RUN RUN2", "perftui compare B1 B2 -- A1 A2 --json"),
            most=10_000,
        ),
        Command(
            "check",
            "[RUN or TRACE]",
            "fail a build on critical findings or a slower step",
            (
                *("runs", "rank", "fail-on", "against", "max-regression", "inconclusive"),
                *("json", "junit", "github"),
            ),
            ("perftui check --fail-on warning", "perftui check --against newest"),
        ),
        Command(
            "runs",
            "[DIR]",
            "list the recorded runs of DIR (default: of the project)",
            ("runs", "json", "prune", "older-than", "keep", "max-size", "dry-run"),
            ("perftui runs", "perftui runs --prune --keep 20 --dry-run"),
        ),
        Command(
            "explain",
            "[FINDING or FIX]...",
            "explain a finding or a fix",
            ("json",),
            ("perftui explain", "perftui explain loader-workers"),
            most=10_000,
        ),
        Command(
            "doctor",
            "",
            "check what keeps profiling from working here",
            ("python", "runs", "ascii", "json"),
            ("perftui doctor", "perftui doctor --python venv/bin/python --json"),
            most=0,
        ),
        Command(
            "probe",
            "",
            "measure peak disk, copy, memory and matmul rates",
            ("path", "python", "json"),
            ("perftui probe", "perftui probe --path data"),
            most=0,
        ),
        Command(
            "schema",
            "[COMMAND]",
            "print the JSON Schema of a command's --json output",
            (),
            ("perftui schema report", "perftui schema"),
        ),
        Command(
            "skill",
            "",
            "print a SKILL.md for coding agents",
            (),
            ("perftui skill", "perftui skill > SKILL.md"),
            most=0,
        ),
        Command(
            "mcp",
            "",
            "serve these commands to coding agents, as MCP tools",
            ("allow-run", "runs"),
            ("perftui mcp", "perftui mcp --allow-run"),
            most=0,
        ),
        Command(
            "keys",
            "",
            "print all keys as a keys.toml file",
            (),
            ("perftui keys", "perftui keys > ~/.config/perftui/keys.toml"),
            most=0,
        ),
        Command(
            "demo",
            "",
            "run a small slow training: cause, fix and proof in 90 seconds",
            ("scenario", "list", *RECORDING, *APP),
            ("perftui demo", "perftui demo --scenario loader"),
            most=0,
        ),
    )
}


def owners(option: str) -> list[str]:
    """Names of the commands that take ``option``."""
    names = ["perftui SCRIPT"] if option in RUN.options else []
    return names + [command.name for command in COMMANDS.values() if option in command.options]


WIDTH = 80
COLUMN = 20
"""The column in which descriptions begin."""

_FORMS = """\
perftui: find out why a PyTorch training is slow, and fix it

  perftui [options] SCRIPT [ARGS...]      run a training script and watch it
  perftui [options] -m MODULE [ARGS...]   run a module
  perftui [options] -- COMMAND [ARGS...]  run any command (torchrun, ...)
  perftui PATH                            open a trace (torch.profiler, nsys) or a
                                          recorded run, also by URL (s3://...)
  perftui COMMAND --help                  show the options of a command

Commands:"""
_MEASURED = "0 faster, 3 slower, 4 no difference, 5 not certain"
_REFUSED = "2 if it cannot be carried out"
_CODES = {
    **dict.fromkeys(("replay", "attach"), "0 when you leave, 70 if the app fails"),
    **dict.fromkeys(("diagnose", "demo"), "the script's"),
    **dict.fromkeys(("try", "tune"), f"{_MEASURED}, 6 the fix did not reach it, 1 error"),
    "compare": _MEASURED,
    **dict.fromkeys(("isolate", "probe"), "0 done, 1 if it cannot be measured"),
    **dict.fromkeys(("apply", "undo"), "0 done, 1 if the source has changed"),
    "check": "0 passed, 1 failed",
    "runs": "0 done, 1 if a run cannot be deleted",
    "doctor": "0 all is well, 1 if a check fails",
    "keys": "0 done, 1 if your file of keys has an error",
}
"""Exit codes besides that of ``_REFUSED``; of commands that are not here only 0 is left."""
_EXIT_CODES = """\
In the app, ? shows the keys of each screen and q quits; the training can go on
without it. Exit code: the script's; 0 if the training is left running; 2 if
perftui cannot do what was asked; 70 if the app itself fails (the training goes
on). perftui COMMAND --help shows the others."""


def overview() -> str:
    """The forms, all commands, and the options of a training."""
    commands = (_row(command.name, command.about) for command in COMMANDS.values())
    before = "Everything after SCRIPT, MODULE or COMMAND belongs to it. Options come before:"
    last = ("  --version, --help", "", _EXIT_CODES)
    return "\n".join((_FORMS, *commands, "", before, *_rows(RUN.options), *last))


def usage(own: Command) -> str:
    """``usage: perftui report [PATH or RUN]``."""
    return f"usage: perftui {own.name} {own.takes}".rstrip()


def of_command(own: Command) -> str:
    """The help of one command: at most a screen of 80 x 24."""
    about = f"{own.about[:1].upper()}{own.about[1:]}."
    lines = [usage(own), about]
    records = set(RECORDING) <= set(own.options)
    options = [name for name in own.options if not (records and name in RECORDING)]
    if own.options:
        lines += ["", *_rows(options)]
    if records:
        names = ", ".join(f"--{name}" for name in RECORDING)
        text = f"Options of a recording, as in perftui --help: {names}."
        lines += textwrap.wrap(text, WIDTH, break_on_hyphens=False)
    codes = textwrap.wrap(f"Exit code: {_CODES.get(own.name, '0 done')}, {_REFUSED}.", WIDTH)
    return "\n".join((*lines, "Examples:", *(f"  {one}" for one in own.examples), *codes))


def _rows(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield _row(f"--{name} {OPTIONS[name].value}".rstrip(), OPTIONS[name].about)


def _row(left: str, about: str) -> str:
    start = f"  {left} ".ljust(COLUMN)
    following = " " * COLUMN
    return textwrap.fill(
        about, WIDTH, initial_indent=start, subsequent_indent=following, break_on_hyphens=False
    )
