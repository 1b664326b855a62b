"""A machine with a GPU that is played: its runs are those of ``tests/gpu/runs``, recorded on one,
and commands that would train answer at once. Everything else is done for real, on the CPU."""

import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from perftui.report.schema import schema_of
from perftui.run.files import replace_file
from perftui.run.reader import RunReader
from perftui_tui.commands.line import parse
from tests.gpu.checks import planted, surroundings
from tests.gpu.checks.machine import TESTS, Ended, Machine

RUNS = TESTS / "gpu" / "runs"
PLAYED = "played"
"""A file in the directory of a run: the name of the one that it is."""

LATE = TESTS / "core" / "agent" / "late"
"""Has trainings start sooner; see ``tests/sooner.py``."""

OF_NAMES = {"busy": "item", "host": "starved", "input_": "starved", "telemetry": "language"}
OTHERS = "language"
"""The recorded run that is played for a name that begins so, and for all others."""

CARD = "NVIDIA H100 80GB HBM3"

Alter = Callable[[tuple[str, ...], Ended], Ended]
"""What tests change of the answer to a command."""


def unaltered(_: tuple[str, ...], ended: Ended) -> Ended:
    """The answer as it is."""
    return ended


@dataclass(frozen=True)
class PlayedMachine(Machine):
    """See above; ``alter`` may change any answer."""

    device: str = "cpu"
    alter: Alter = field(default=unaltered)

    def run(self, *words: str | Path, **how: Any) -> Ended:
        """Answer a command."""
        command = tuple(map(str, words))
        ours = command[len(self.perftui_words) :]
        if command[: len(self.perftui_words)] == self.perftui_words:
            ended = self._of_perftui(command, ours, how)
        elif command[0] == "ncu":
            Path(command[command.index("--log-file") + 1]).write_text(_ncu_page())
            ended = Ended(command, 0, "", "")
        else:
            ended = super().run(*self._quick(command), **_sooner(how))
        return self.alter(command, ended)

    def _quick(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """The step benchmark with steps of the CPU, and for a short time."""
        shapes = {"gpu-tiny": "tiny", "gpu-realistic": "tiny-without-loader"}
        if "agent_on_off" not in command[1]:
            return command
        return (*command[:2], shapes[command[2]], "1.5")

    def _of_perftui(
        self, command: tuple[str, ...], words: tuple[str, ...], how: Mapping[str, Any]
    ) -> Ended:
        # Raises where perftui would not understand it.
        line = parse(list(words))
        if line.action == "script":
            if "run_loops.py" in line.words[0]:
                return super().run(*command, **_sooner(how))
            self._play_run(Path(line.values["runs"]))
            return Ended(command, 0, "", "")
        if line.action == "report":
            return self._report(command, Path(line.words[0]))
        if line.action in ("apply", "undo"):
            self._change(line.words[-1])
            return Ended(command, 0, "", "")
        answers = {"compare": _compared, "try": _tried, "doctor": _examined, "probe": _measured}
        told = answers[line.action]()
        return Ended(command, 0, json.dumps(told), "pair 1: 50 ms -> 25 ms a step, 2.00x\n")

    def _play_run(self, runs: Path) -> None:
        """Unpack a recorded run."""
        kept_as = str(runs.relative_to(self.work / "runs"))
        name = next((run for begin, run in OF_NAMES.items() if kept_as.startswith(begin)), OTHERS)
        root = runs / kept_as.replace("/", "-")
        with tarfile.open(RUNS / f"{name}.tar.xz") as archive:
            archive.extractall(root, filter="data")
        (root / PLAYED).write_text(name)

    def _report(self, command: tuple[str, ...], root: Path) -> Ended:
        """What perftui says of the recorded run; of a training with a planted cause, that."""
        kept = self.work / f"{(root / PLAYED).read_text()}.json"
        if not kept.exists():
            replace_file(kept, super().run(*command).checked().out.encode())
        told = json.loads(kept.read_text())
        _form(told, root)
        return Ended(command, 0, json.dumps(told), "")

    def _change(self, root: str) -> None:
        """Write to the script of a run, or take that back."""
        script = self.work / "trainings" / f"{Path(root).parents[1].name}.py"
        kept = script.with_suffix(".kept")
        if kept.exists():
            shutil.move(kept, script)
        else:
            shutil.copy(script, kept)
            script.write_text(f"{script.read_text()}# fixed\n")

    @contextmanager
    def beside(self, *words: str | Path) -> Iterator[list[str]]:
        """Answer as nvidia-smi, by the samples of the run that is recorded meanwhile."""
        lines: list[str] = []
        yield lines
        (manifest,) = (self.work / "runs" / "telemetry").glob("*/run.json")
        (table,) = RunReader(manifest.parent).poll().telemetry.values()
        for at, time_ns in enumerate(table["time"]):
            when = datetime.fromtimestamp(time_ns / 1e9).strftime("%Y/%m/%d %H:%M:%S.%f")
            columns = surroundings.METRICS.values()
            fields = (table[column][at] / unit for column, unit, *_ in columns)
            lines.append(", ".join((when, *(f"{value:.2f}" for value in fields), "0")))
        ended = self.alter(tuple(map(str, words)), Ended((), 0, "\n".join(lines), ""))
        lines[:] = ended.out.splitlines()

    def has(self, program: str) -> bool:
        """Nsight Compute is there."""
        return program == "ncu"


def _sooner(how: Mapping[str, Any]) -> dict[str, Any]:
    """Have trainings start sooner."""
    paths = os.pathsep.join([str(LATE), os.environ.get("PYTHONPATH", "")])
    return {**how, "env": {**(how.get("env") or {}), "PYTHONPATH": paths}}


def _form(told: dict[str, Any], root: Path) -> None:
    """Have a report name the planted cause, a fast step without it, and no cause of ours."""
    form, name = root.parents[0].name, root.parents[1].name
    case = next((case for case in planted.CASES if case.name == name), None)
    for window in told["recording"]["windows"]:
        window["stall"] = min(window["stall"], 100_000_000)
    if case is None:
        told["recording"]["snapshots"] = [
            {"file": "x", "step": 1, "reason": "peak", "peak": 9 << 30}
        ]
        return
    expected = case.training().expected
    finding = {**told["findings"][0], "rule": expected.rules[0], "severity": "critical"}
    line = min(expected.planted.lines) if expected.planted else None
    finding["place"] = {**(finding["place"] or {}), "file": f"/{name}.py", "line": line}
    told["findings"] = [finding] if form == planted.PLANTED else []
    told["steps"]["mean_ns"] = 50_000_000 if form == planted.PLANTED else 25_000_000


def _ncu_page() -> str:
    rows = [["ID", "Kernel Name", "thread Domain:Push/Pop_Range:PL_Type"], ["", "", ""]]
    rows += [[str(at), "gemm", f"{phase}:none"] for at, phase in enumerate(surroundings.PHASES)]
    return "==PROF== Connected\n" + "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows)


def _compared() -> dict[str, Any]:
    return _of("compare", ratio=2.0, outcome="faster", reason="")


def _tried() -> dict[str, Any]:
    return _of("try", headline="2.00x faster (1.90 to 2.10)")


def _examined() -> dict[str, Any]:
    found = {"torch": "2.11.0+cu130, for CUDA 13.0", "NVML": f"1 x {CARD}"}
    return {
        "rows": [
            {"topic": topic, "state": "ok", "found": found.get(topic, "fine")}
            for topic in surroundings.TOPICS
        ]
    }


def _measured() -> dict[str, Any]:
    values = {"device memory": 2.9e12, "matrix, float32": 5e13}
    values |= {"matrix, TF32": 4e14, "matrix, bfloat16": 7.5e14}
    return {
        "gpu": CARD,
        "rates": [{"name": name, "value": value} for name, value in values.items()],
    }


def _of(command: str, **values: Any) -> dict[str, Any]:
    """Fields of a command's JSON, which has them by its schema."""
    schema = schema_of(command)
    known = json.dumps(schema)
    missing = [name for name in values if f'"{name}"' not in known]
    if missing:
        raise KeyError(f"perftui {command} --json has no {missing}")
    return values
