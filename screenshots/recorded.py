"""The real runs that pictures are taken of."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path

from patience import until

from perftui.diagnosis.diagnose import diagnosis
from perftui.experiments.rerun import rerun_launch
from perftui.facts.fact import Facts
from perftui.fixes.catalogue import options
from perftui.recorder.launch import Launch, start
from perftui.run.columns import STACK_RATE
from perftui.run.control import STOP, request
from perftui.run.layout import RunLayout
from perftui.run.reader import RunReader, RunSnapshot
from perftui.wire.spool import AgentOptions
from perftui_tui.demo import trainings


@dataclass(frozen=True)
class Runs:
    """One directory of runs, each over."""

    before: Path
    after: Path
    """The same with the fix that the diagnosis offers."""
    ranks: Path
    gpu: Path
    """One of those that tests open, recorded where there was a GPU."""


def use_own_python() -> None:
    """Let ``python`` be the one that runs this: pictures show commands as people type them."""
    own = str(Path(sys.executable).parent)
    os.environ["PATH"] = os.pathsep.join([own, os.environ.get("PATH", "")])


def demo_launch(folder: Path, steps: int | None, scenario: str) -> Launch:
    """A training of the demo, a script of its own in ``folder``, for so many steps."""
    (folder / "train.py").write_text(trainings()[scenario].script)
    return Launch(
        command=("python", "train.py"),
        cwd=folder,
        runs=folder / ".perftui" / "runs",
        options=AgentOptions(max_steps=steps, shapes=True, stacks=True),
        stack_samples_per_second=STACK_RATE,
    )


def record(folder: Path, steps: int) -> Runs:
    """The demo as it is, with its best fix, and a job of two ranks."""
    launch = demo_launch(folder, steps, "loader")
    print(f"recording {steps} steps of the demo", flush=True)
    before = finished(start(launch))
    facts = Facts(before)
    found = diagnosis(facts).top
    fixes = [fix for fix in (options(found, facts) if found else ()) if fix.override]
    if not fixes:
        raise SystemExit(f"screenshots: no fix is offered for {found}")
    print(f"recording it again with {fixes[0].title}", flush=True)
    again = replace(rerun_launch(before, fixes[0]), options=launch.options)
    after = finished(start(again))
    print("recording two ranks", flush=True)
    ranks = finished(start(_two_ranks(launch)))
    return Runs(before.root, after.root, ranks.root, unpacked(folder / "gpu"))


def unpacked(root: Path) -> Path:
    """The run of a training on a GPU that waits for data, put at ``root``."""
    packed = Path(__file__).parents[1] / "tests" / "gpu" / "runs" / "starved.tar.xz"
    with tarfile.open(packed) as archive:
        archive.extractall(root, filter="data")
    return root


def _two_ranks(launch: Launch) -> Launch:
    script = Path(__file__).with_name("two_ranks.py")
    shutil.copyfile(script, launch.cwd / script.name)
    torchrun = ("torchrun", "--standalone", "--nproc-per-node", "2")
    return replace(
        launch,
        command=(*torchrun, script.name),
        options=replace(launch.options, max_steps=None),
    )


def finished(root: Path) -> RunSnapshot:
    """The run at ``root`` once it is over."""
    return asyncio.run(_finished(root))


async def _finished(root: Path) -> RunSnapshot:
    reader = RunReader(root)
    await until(lambda: reader.poll().manifest.status.is_over, lambda: asyncio.sleep(0.2))
    return reader.poll()


async def stop_all(runs: Path) -> None:
    """Ask whatever still trains below ``runs`` to stop, and wait for its end."""
    for root in sorted(runs.iterdir()):
        if not RunReader(root).poll().manifest.status.is_over:
            request(RunLayout(root), STOP)
            await _finished(root)
