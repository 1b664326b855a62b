"""The machine that is checked: commands run on it, trainings recorded, rows told."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perftui.run.files import replace_file

TESTS = Path(__file__).parents[2]
PATIENCE = ((signal.SIGINT, 8.0), (signal.SIGTERM, 4.0), (signal.SIGKILL, 4.0))
"""How a command is stopped whose time is over, and the seconds that it then has: a training under
perftui ends by the first as by ctrl+c, and its run is whole."""


GATE = """import fcntl
from pathlib import Path

import torch

if torch.cuda.is_available():
    torch.cuda.init()
_gate = Path(__file__).with_suffix(".lock").open("w")
fcntl.flock(_gate, fcntl.LOCK_EX)
"""
"""A module that scripts import right after torch. It takes ten seconds of one core to come so far:
several start side by side, and go on one after the other, each when the one before has ended."""


class CheckError(Exception):
    """A command did not do what the check needs; the message has the command and what it said."""


class State(str, enum.Enum):
    """What a check came to."""

    OK = "ok"
    WRONG = "wrong"
    UNKNOWN = "unknown"
    """What it needs is not on this machine, or cannot be told."""
    FAILED = "failed"
    """A command failed, or took too long."""
    NOT_DONE = "not done"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    state: State
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)
    """The figures behind the text, for JSON."""

    @classmethod
    def of(cls, name: str, right: bool, text: str, **values: Any) -> Row:
        """Ok or wrong."""
        return cls(name, State.OK if right else State.WRONG, text, values)

    def encode(self) -> str:
        """As a line of JSON."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def decode(cls, line: str) -> Row:
        """The row that ``encode`` made ``line`` of."""
        plain = json.loads(line)
        return cls(**{**plain, "state": State(plain["state"])})


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str
    late: bool = False
    """It was stopped as its time was over."""

    @property
    def last_words(self) -> str:
        """The last line that it printed, errors first."""
        lines = (self.err.strip() or self.out.strip() or "nothing printed").splitlines()
        return lines[-1]

    def checked(self) -> Ended:
        """The same. Raises CheckError if it failed."""
        if self.code:
            how = "was stopped" if self.late else f"exit code {self.code}"
            raise CheckError(f"{self._short}: {how}: {self.last_words}")
        return self

    @property
    def _short(self) -> str:
        words = [word.rpartition("/")[2] for word in self.words]
        return " ".join(words[words.index("perftui_tui") :] if "perftui_tui" in words else words)


@dataclass(frozen=True)
class Machine:
    """Where the trainings run. Everything is written below ``work``."""

    work: Path
    device: str = "cuda"

    def run(
        self,
        *words: str | Path,
        seconds: float = 60,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Ended:
        """Run a command to its end, for so many ``seconds`` at most."""
        command = tuple(map(str, words))
        process = subprocess.Popen(
            command,
            cwd=cwd or self.work,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            out, err = _stopped(process)
            return Ended(command, process.returncode or 124, out, err, late=True)
        except BaseException:
            _stopped(process)
            raise
        return Ended(command, process.returncode, out, err)

    @contextlib.contextmanager
    def beside(self, *words: str | Path) -> Iterator[list[str]]:
        """Meanwhile run a command that does not end by itself; then there are the lines that it
        printed."""
        lines: list[str] = []
        process = subprocess.Popen(
            tuple(map(str, words)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            yield lines
        finally:
            lines += _stopped(process)[0].splitlines()

    def has(self, program: str) -> bool:
        """Whether a program is installed."""
        return shutil.which(program) is not None

    def perftui(self, *words: str | Path, **how: Any) -> Ended:
        """Run a command of perftui's."""
        return self.run(*self.perftui_words, *words, **how)

    @property
    def perftui_words(self) -> tuple[str, ...]:
        """The command itself."""
        return (sys.executable, "-m", "perftui_tui")

    def asked(self, *words: str | Path, **how: Any) -> dict[str, Any]:
        """The JSON that a command of perftui's prints. Raises CheckError if it prints none."""
        ended = self.perftui(*words, "--json", **how)
        try:
            told = json.loads(ended.out)
        except json.JSONDecodeError:
            raise CheckError(f"{ended.checked()._short}: no JSON: {ended.last_words}") from None
        return dict(told)

    def script(self, name: str, source: str) -> Path:
        """A training with this source, which trains while no other does; written only once."""
        folder = self.work / "trainings"
        folder.mkdir(exist_ok=True)
        script = folder / name
        if not script.exists():
            replace_file(folder / "gate.py", GATE.encode())
            replace_file(
                script, source.replace("import torch\n", "import torch, gate\n", 1).encode()
            )
        return script

    def record(
        self, name: str, *words: str | Path, seconds: float = 40, cwd: Path | None = None
    ) -> Path:
        """The run of ``perftui --headless WORDS``, kept as ``name``; recorded only once.

        A training that is stopped as its time is over has a run, too. Raises CheckError if it
        failed, or there is no run of it."""
        runs = self.work / "runs" / name
        if not (found := sorted(runs.glob("*/run.json"))):
            command = ("--headless", "--runs", runs, *words)
            ended = self.perftui(*command, seconds=seconds, cwd=cwd)
            found = sorted(runs.glob("*/run.json"))
            if not (ended.late and found):
                ended.checked()
            if not found:
                raise CheckError(f"no run below {runs}: {ended.last_words}")
        return found[-1].parent

    def report(self, root: Path) -> dict[str, Any]:
        """What ``perftui report --json`` says of a run, asked only once. Raises CheckError if there
        is no report."""
        kept = self.work / "reports" / f"{root.name}.json"
        if not kept.exists():
            told = json.dumps(self.asked("report", root))
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(told)
        return dict(json.loads(kept.read_text()))


def _stopped(process: subprocess.Popen[str]) -> tuple[str, str]:
    """End it, ever less gently; what it printed."""
    for number, seconds in PATIENCE:
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=seconds)
    return "", "it does not end"
