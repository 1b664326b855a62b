"""`perftui SCRIPT`: start the training under a recorder and watch it."""

from __future__ import annotations

import difflib
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from perftui_tui.commands.interpreter import training_interpreter
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import log
from perftui_tui.commands.table import COMMANDS
from perftui_tui.commands.terminal import why_headless

if TYPE_CHECKING:
    from perftui.recorder.launch import Launch
    from perftui.wire.spool import AgentOptions

OF_TORCH = ("shapes", "stacks", "memory", "syncs")
"""What torch's own profiler records besides operators."""

OF_WINDOWS = (*OF_TORCH, "modules", "nvtx", "nsys", "window", "steps")
"""What has no effect without windows."""


def run(line: CommandLine) -> int:
    """Run what ``line`` names; returns its exit code, 0 where it is left running.

    Raises:
        UsageError: it cannot be started.
    """
    return run_launch(line, launch_of(line))


def run_launch(line: CommandLine, launch: Launch) -> int:
    """Run ``launch`` in the app, or without it where there is no terminal for one.

    Raises:
        UsageError: the run directory cannot be made.
    """
    reason = why_headless(line)
    try:
        if reason is not None:
            _headless(launch, reason)
        from perftui.recorder.launch import start

        root = start(launch)
    except OSError as error:
        raise UsageError(
            f"the run cannot be recorded in {launch.runs}: {error.strerror or error}; choose "
            "another directory with --runs DIR"
        ) from error
    from perftui_tui.commands.show import show

    return show(root, line, is_replay=False)


def _headless(launch: Launch, reason: str) -> NoReturn:
    from perftui.recorder.foreground import run_as_command

    if reason:
        log(f"perftui: {reason}, so running without the app")
    run_as_command(replace(launch, joins=True))


def launch_of(line: CommandLine) -> Launch:
    """The launch that ``line`` asks for.

    Raises:
        UsageError: the script, the interpreter or the command is not there.
    """
    from perftui.recorder.launch import Launch
    from perftui.run.columns import STACK_RATE
    from perftui.run.layout import RUNS_DIRECTORY

    here = Path.cwd()
    if line.action == "command":
        command, beside = (_executable(line.words[0]), *line.words[1:]), here
    elif line.action == "module":
        command, beside = (training_interpreter(line), "-m", *line.words), here
    else:
        script = _script(line.words[0])
        command, beside = (training_interpreter(line), *line.words), script.resolve().parent
    runs = Path(line.values["runs"]) if "runs" in line.values else beside / RUNS_DIRECTORY
    size = shutil.get_terminal_size()
    stack_rate = line.number("stack-rate")
    return Launch(
        command=command,
        cwd=here,
        runs=runs.absolute(),
        options=options_of_line(line),
        stack_samples_per_second=STACK_RATE if stack_rate is None else stack_rate,
        rows=size.lines,
        columns=size.columns,
    )


def options_of_line(line: CommandLine) -> AgentOptions:
    """The options of the recording that are given, all others as usual.

    Raises:
        UsageError: two of them cannot be meant together.
    """
    from perftui.wire.spool import AgentOptions

    flags = line.flags
    first_step, window_steps = line.steps()
    _check_options(line, first_step)
    if "nsys" in flags:
        _check_nsys()
    return AgentOptions(
        profile="no-profile" not in flags,
        window_steps=window_steps,
        first_step=first_step,
        overhead=line.share("overhead") or AgentOptions.overhead,
        nvtx="nvtx" in flags,
        shapes="shapes" in flags,
        stacks="stacks" in flags,
        memory="memory" in flags,
        modules="modules" in flags,
        memory_snapshot="memory-snapshot" in flags,
        nsys="nsys" in flags,
        syncs="syncs" in flags,
        max_steps=line.number("max-steps"),
    )


def _check_options(line: CommandLine, first_step: int | None) -> None:
    """Refuse what cannot be meant together, rather than leave out one half in silence."""
    given = (*line.flags, *line.values)
    if "no-profile" in given:
        for name in OF_WINDOWS:
            if name in given:
                raise UsageError(
                    f"--no-profile records no windows, and --{name} needs them: drop one of the two"
                )
    if "nsys" in given:
        for name in OF_TORCH:
            if name in given:
                raise UsageError(
                    f"--{name} needs torch's own profiler, which --nsys replaces: drop one of the "
                    "two"
                )
    most = line.number("max-steps")
    if first_step is not None and most is not None and first_step >= most:
        raise UsageError(
            f"--max-steps {most} ends the training before step {first_step} of --steps: let it run "
            "longer, or name an earlier step"
        )


def _check_nsys() -> None:
    from perftui.recorder.nsys import NsysError, find_nsys

    try:
        find_nsys()
    except NsysError as error:
        raise UsageError(str(error)) from error


def _script(word: str) -> Path:
    path = Path(word)
    if path.is_file():
        return path
    near = difflib.get_close_matches(
        word, [*(p.name for p in Path.cwd().glob("*.py")), *COMMANDS], 1
    )
    hint = f"did you mean {near[0]}?" if near else "name the script as you would for python"
    raise UsageError(f"no such script: {word}; {hint}")


def _executable(word: str) -> str:
    found = shutil.which(word)
    if found is None:
        raise UsageError(f"command not found: {word}")
    return found
