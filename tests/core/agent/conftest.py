"""Runs real training scripts under the agent, as the recorder would."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import perftui.agent
from perftui.recorder.spool import Record, RingReader
from perftui.wire.ring import EVAL_FLAG, INFER_FLAG, PROFILED_FLAG
from perftui.wire.spool import OPTIONS_VARIABLE, OVERRIDES_VARIABLE, SPOOL_VARIABLE, Spool
from tests.core.agent.warm_start import WarmStart
from tests.sooner import LATE

STEPS = """
import gc, os, sys, threading, torch
from torch import nn
model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
def train(steps):
    for _ in range(steps):
        step()
"""
"""Begins scripts that train; what follows it says how."""

INJECT = Path(perftui.agent.__file__).parent / "inject"


@dataclass(frozen=True)
class Run:
    """What a script left behind."""

    code: int
    out: str
    err: str
    spool: Spool

    def records(self, ring: int = 0) -> list[Record]:
        reader = RingReader(self.spool.rings()[ring])
        records = reader.poll()
        reader.close()
        return records

    def of_kind(self, kind: str) -> list[Record]:
        return [record for record in self.records() if record.kind == kind]

    @property
    def steps_of_each(self) -> list[int]:
        """How many steps each process has recorded, from the fewest on."""
        rings = range(len(self.spool.rings()))
        return sorted(sum(one.kind == "step" for one in self.records(ring)) for ring in rings)

    @property
    def step_kinds(self) -> list[str]:
        kinds = {0: "train", EVAL_FLAG: "eval", INFER_FLAG: "infer"}
        return [kinds[step.flag & ~PROFILED_FLAG] for step in self.of_kind("step")]

    def notes(self, kind: str) -> list[dict[str, Any]]:
        lines = [
            json.loads(line)
            for path in sorted(self.spool.root.glob("notes-*.jsonl"))
            for line in path.read_text().splitlines()
        ]
        return [line["data"] for line in lines if line["kind"] == kind]

    def loader(self) -> dict[str, Any]:
        """Facts of the first loader."""
        return self.notes("loader")[0]

    def events(self, window: int = 0) -> list[dict[str, Any]]:
        """Those that have a name, of the trace of one window."""
        path = self.spool.root / self.notes("window")[window]["file"]
        return [one for one in json.loads(path.read_text())["traceEvents"] if "name" in one]


Train = Callable[..., Run]
Environment = Callable[..., dict[str, str]]


def environment(spool: Path | None, **variables: str) -> dict[str, str]:
    """The tests' environment with the agent in it, or without."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PERFTUI")}
    clean.pop("PYTHONPATH", None)
    if spool is None:
        return clean
    return {**clean, "PYTHONPATH": str(INJECT), SPOOL_VARIABLE: str(spool), **variables}


@pytest.fixture(name="environment")
def environment_fixture() -> Environment:
    """The environment to start an interpreter with."""
    return environment


@pytest.fixture(scope="session")
def torch() -> Any:
    """Imported as a test first needs it: that takes 2 s, in each worker if collecting does it."""
    return importlib.import_module("torch")


@pytest.fixture(scope="session")
def warm_start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmStart]:
    """Where trainings start that need no interpreter of their own."""
    start = WarmStart(tmp_path_factory.mktemp("warm"), environment(None))
    yield start
    start.close()


@pytest.fixture
def train(tmp_path: Path, request: pytest.FixtureRequest) -> Train:
    """Runs a script given as text; ``agent=False`` runs it as it is.

    ``fresh=True`` starts an interpreter instead of forking one that has imported torch."""

    def run(
        source: str,
        *args: str,
        agent: bool = True,
        options: dict[str, Any] | None = None,
        overrides: list[dict[str, Any]] | None = None,
        fresh: bool = False,
    ) -> Run:
        script = tmp_path / "train.py"
        script.write_text(source)
        spool = tmp_path / "spool"
        spool.mkdir(mode=0o700, exist_ok=True)
        variables = {}
        if options is not None:
            variables[OPTIONS_VARIABLE] = json.dumps(options)
        if overrides is not None:
            variables[OVERRIDES_VARIABLE] = json.dumps(overrides)
        env = environment(spool if agent else None, **variables)
        paths = [path for path in (env.get("PYTHONPATH"), str(LATE)) if path]
        env["PYTHONPATH"] = os.pathsep.join(paths)
        if fresh:
            done = subprocess.run(
                [sys.executable, str(script), *args],
                cwd=tmp_path,
                env=env,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        else:
            start: WarmStart = request.getfixturevalue("warm_start")
            done = start.run(tmp_path, args, env, timeout=120)
        return Run(done.returncode, done.stdout, done.stderr, Spool(spool))

    return run


@pytest.fixture
def unnoticed(train: Train) -> Train:
    """Runs a script as ``train`` does, which ends and prints as it does without the agent."""

    def run(source: str, *args: str, fresh: bool = False, **watched: Any) -> Run:
        alone = train(source, *args, agent=False, fresh=fresh)
        run = train(source, *args, fresh=fresh, **watched)
        assert (run.code, run.out, run.err) == (alone.code, alone.out, alone.err)
        return run

    return run
