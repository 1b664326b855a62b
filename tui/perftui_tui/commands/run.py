"""`perftui SCRIPT`, `demo` and `diagnose`: a training under a recorder, watched or reported."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perftui.format import did_you_mean
from perftui.recorder.launch import Launch, start
from perftui.run.columns import STACK_RATE
from perftui.run.control import STOP, request
from perftui.run.layout import RUNS_DIRECTORY, RunLayout
from perftui.run.manifest import ManifestError, StopReason, wait_until_over
from perftui.wire.spool import AgentOptions
from perftui_tui.commands.farewell import tell_failure
from perftui_tui.commands.line import AGAIN, CommandLine, UsageError
from perftui_tui.commands.output import (
    DONE,
    end_as_interrupted,
    log,
    refusing,
    waiting,
    why_headless,
    write,
)
from perftui_tui.commands.report import print_report
from perftui_tui.commands.table import COMMANDS
from perftui_tui.commands.target import Target, files_beside, find_target

if TYPE_CHECKING:
    from textual.message import Message

    from perftui.facts.question import Question

_PACKAGES = (
    "lib/python3*/site-packages",
    "lib/python3*/dist-packages",
    "local/lib/python3*/dist-packages",
)
"""Directories of packages below an interpreter's prefix; the last two are Debian's, of ``/usr``."""


def interpreter(line: CommandLine) -> str:
    """``--python``; else the first that has torch of the active environment's, our own, and the
    ``python3`` and ``python`` that a shell would run; else our own.

    An active environment may be one without torch while perftui's own has it."""
    if "python" not in line.values:
        return next((str(python) for python in _candidates() if _has_torch(python)), sys.executable)
    chosen: str = line.values["python"]
    if found := shutil.which(chosen):
        return found
    raise UsageError(f"--python {chosen}: there is no such interpreter")


def training_interpreter(line: CommandLine) -> str:
    """The same ``interpreter``; says where it is our own because none has torch."""
    python = interpreter(line)
    if "python" not in line.values and not _has_torch(Path(python)):
        log(
            f"perftui: no Python with PyTorch was found, so running with {python}; "
            "--python PATH names another"
        )
    return python


def _candidates() -> Iterator[Path]:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if prefix := os.environ.get(variable):
            yield Path(prefix) / "bin" / "python"
    yield Path(sys.executable)
    for name in ("python3", "python"):
        if found := shutil.which(name):
            yield Path(found)


def _has_torch(python: Path) -> bool:
    """Whether torch is installed for ``python``; nothing is imported to find out."""
    if str(python) == sys.executable:
        return find_spec("torch") is not None
    prefix = python.parent.parent
    return python.is_file() and any(
        any(prefix.glob(f"{packages}/torch/__init__.py")) for packages in _PACKAGES
    )


RECORDED = ("nvtx", "shapes", "stacks", "memory", "modules", "memory-snapshot", "nsys", "syncs")
"""Flags of what is recorded besides operators."""

OF_TORCH = ("shapes", "stacks", "memory", "syncs")
"""Options that torch's own profiler records besides operators."""

OF_WINDOWS = (*OF_TORCH, "modules", "nvtx", "nsys", "window", "steps")
"""Options that have no effect without windows."""


def run(line: CommandLine) -> int:
    """Run what ``line`` names; returns its exit code, 0 where it is left running."""
    return run_launch(line, launch_of(line))


def run_launch(line: CommandLine, launch: Launch) -> int:
    """Run ``launch`` in the app, or without it where there is no terminal for one."""
    reason = why_headless(line.flags)
    where = f"the run cannot be recorded in {launch.runs}"
    with refusing(OSError, where=where, advice="; choose another directory with --runs DIR"):
        if reason is not None:
            from perftui.recorder.foreground import run_as_command

            if reason:
                log(f"perftui: {reason}, so running without the app")
            run_as_command(replace(launch, joins=True))
        root = start(launch)
    from perftui_tui.commands.show import show

    return show(root, line, is_replay=False)


def launch_of(line: CommandLine) -> Launch:
    """The launch that ``line`` asks for."""
    here = Path.cwd()
    if line.action == "command":
        executable = shutil.which(line.words[0])
        if executable is None:
            raise UsageError(f"command not found: {line.words[0]}")
        command, beside = (executable, *line.words[1:]), here
    elif line.action == "module":
        command, beside = (training_interpreter(line), "-m", *line.words), here
    else:
        script = _script(line.words[0], reports=line.reports)
        command, beside = (training_interpreter(line), *line.words), script.resolve().parent
    size = shutil.get_terminal_size()
    return Launch(
        command=command,
        cwd=here,
        runs=line.values.get("runs", beside / RUNS_DIRECTORY).absolute(),
        options=options_of_line(line),
        stack_samples_per_second=line.values.get("stack-rate", STACK_RATE),
        rows=size.lines,
        columns=size.columns,
    )


def options_of_line(line: CommandLine) -> AgentOptions:
    """The options of the recording that are given, all others as usual."""
    flags = line.flags
    first_step, window_steps = line.steps()
    _check_options(line, first_step)
    if "nsys" in flags:
        from perftui.recorder.nsys import NsysError, find_nsys

        with refusing(NsysError):
            find_nsys()
    recorded: dict[str, Any] = {name.replace("-", "_"): name in flags for name in RECORDED}
    return AgentOptions(
        profile="no-profile" not in flags,
        window_steps=window_steps,
        first_step=first_step,
        overhead=line.values.get("overhead", AgentOptions.overhead),
        max_steps=line.values.get("max-steps"),
        **recorded,
    )


def _check_options(line: CommandLine, first_step: int | None) -> None:
    """Refuse what cannot be meant together, rather than leave out one half in silence."""
    names = (*line.flags, *line.values)
    for name in OF_WINDOWS:
        if name in names and "no-profile" in names:
            raise UsageError(f"--no-profile records no windows, and --{name} needs them: drop one")
    for name in OF_TORCH:
        if name in names and "nsys" in names:
            raise UsageError(f"--{name} needs torch's profiler, which --nsys replaces: drop one")
    most = line.values.get("max-steps")
    if first_step is not None and most is not None and first_step >= most:
        raise UsageError(
            f"--max-steps {most} ends the training before step {first_step} of --steps: let it run "
            "longer, or name an earlier step"
        )


def _script(word: str, *, reports: bool) -> Path:
    path = Path(word)
    if path.is_file():
        return path
    what, commands = ("script", ()) if path.suffix or reports else ("command or script", COMMANDS)
    near = did_you_mean(word, [*files_beside(word), *commands])
    raise UsageError(f"no such {what}: {word}.{near or ' Name a script as you would for python.'}")


def demo(line: CommandLine) -> int:
    """Write a bundled training where it can be edited and a fix be written to it, and run it."""
    from perftui_tui.demo import PREFIX, trainings

    scenarios = trainings()
    if "list" in line.flags:
        rows = (f"{row.name:<12}{row.about}\n" for row in scenarios.values())
        write("".join(rows))
        return DONE
    chosen = scenarios[line.values.get("scenario", next(iter(scenarios)))]
    with refusing(OSError, where="the demo cannot be written"):
        script = Path(tempfile.mkdtemp(prefix=PREFIX)) / "train.py"
        script.write_text(chosen.script)
    return run_launch(line, launch_of(replace(line, action="script", words=(str(script),))))


def diagnose(line: CommandLine) -> int:
    """Run what ``line`` names to its end, then print what was found.

    The script prints into the run's own log. Interrupted, the training is asked to stop, and what
    was recorded so far is reported. Of a recorded run the training is run again, as it was but for
    its source and the options given."""
    launch = launch_again(line) if line.action == AGAIN else launch_of(line)
    with refusing(OSError, where=f"the run cannot be recorded in {launch.runs}"):
        root = start(launch)
    end_as_interrupted()
    try:
        log(f"recording {root}")
        with waiting("starting the script") as tell, _asking(root, tell):
            manifest = wait_until_over(root, float("inf"))
    except KeyboardInterrupt:
        request(RunLayout(root), STOP, reason=StopReason.USER)
        manifest = wait_until_over(root, float("inf"))
    tell_failure(root, manifest)
    print_report(Target(root), replace(line, action="report"))
    return manifest.exit_code or DONE


@contextmanager
def _asking(root: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Judge the run while it goes on, have its windows record what that lacks, and say so; ``tell``
    of its steps."""
    from perftui.diagnosis.asking import recorded
    from perftui_tui.actions.requests import ask_for_evidence
    from perftui_tui.reading.source import RunSource, SnapshotReceived

    asked: Question | None = None

    def look(message: Message) -> bool:
        nonlocal asked
        if not isinstance(message, SnapshotReceived) or not message.snapshot.goes_on:
            return True
        facts, steps = message.snapshot.facts, message.snapshot.train_steps
        if steps:
            tell(f"{message.snapshot.title}: step {steps:,}")
        if asked is not None and facts is not None and asked.evidence in recorded(facts):
            log(f"recorded: {asked.evidence.words}")
            asked = None
        question = ask_for_evidence(message.snapshot)
        if question is not None and asked is None:
            log(f"asking: {question.text}")
        asked = question or asked
        return True

    source = RunSource(root, look)
    source.is_drawn.set()
    source.start()
    try:
        yield
    finally:
        source.stop()


def launch_again(line: CommandLine) -> Launch:
    """The launch that repeats the run that ``line`` names, with the options that are given now."""
    from perftui.experiments.rerun import repeat_launch
    from perftui.run.origin import ForeignRunError
    from perftui.run.reader import RunReader

    if "python" in line.values:
        raise UsageError("a run is repeated with its own interpreter: drop --python")
    place = find_target(line)
    where = f"{place.path} contains no run to repeat"
    with refusing(ManifestError, OSError, where=where), refusing(ForeignRunError):
        launch = repeat_launch(RunReader(place.path).poll())
    options, usual = options_of_line(line), type(launch.options)()
    changed = {
        field.name: value
        for field in fields(options)
        if (value := getattr(options, field.name)) != getattr(usual, field.name)
    }
    return replace(
        launch,
        options=replace(launch.options, **changed),
        runs=line.values.get("runs", launch.runs).absolute(),
        stack_samples_per_second=line.values.get("stack-rate", launch.stack_samples_per_second),
    )
