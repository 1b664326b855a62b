"""Pictures of every screen and a short film, from the real app on real runs.

Records the bundled demo twice, as it is and with the fix that the diagnosis offers, and a job of
two ranks; opens a run that was recorded on a GPU; then runs the demo once more below the app, for
the film. A machine with nothing else to do makes honest numbers. ``python screenshots/make.py``.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from film import make_film
from recorded import Runs, record, use_own_python
from shots import SHOTS, SIZES, Shot, take

HERE = Path(__file__).parent
STEPS = 600
"""Steps of each run: enough for a verdict and for the line that it is about, and so many that two
windows are within the budget."""

TRACE_SHOTS = (
    Shot("trace-overview", "overview"),
    Shot("trace-timeline", "timeline", ("g",)),
    Shot("trace-ops", "ops"),
    Shot("trace-diagnosis", "diagnosis"),
)


def main() -> int:
    """Record, draw, and say what was written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=HERE, help="where the pictures go")
    parser.add_argument("--run", type=Path, help="draw this recorded run instead")
    parser.add_argument("--trace", type=Path, help="draw this trace file too, as trace-*")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of each run")
    parser.add_argument("--only", metavar="NAME", help="draw only this picture, or only 'film'")
    arguments = parser.parse_args()
    if arguments.run is None and importlib.util.find_spec("torch") is None:
        print(
            "screenshots: torch is not installed here, so no training can be recorded; "
            "install perftui[torch], or draw a recorded run with --run DIR",
            file=sys.stderr,
        )
        return 2
    use_own_python()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="perftui-screenshots-") as folder:
        if arguments.only != "film":
            run = arguments.run
            runs = Runs(run, run, run, run) if run else record(Path(folder), arguments.steps)
            asyncio.run(draw_all(runs, arguments.out, arguments.only))
        if arguments.run is None and arguments.only in (None, "film"):
            made = Path(folder) / "film"
            made.mkdir()
            asyncio.run(make_film(made, arguments.out / "demo.gif"))
    if arguments.trace is not None:
        asyncio.run(draw_trace(arguments.trace, arguments.out))
    return 0


async def draw_all(runs: Runs, out: Path, only: str | None) -> None:
    """Every picture at every size."""
    for shot in SHOTS:
        if only in (None, shot.name):
            for size in SIZES:
                await draw(getattr(runs, shot.run), shot, size, out)


async def draw_trace(trace: Path, out: Path) -> None:
    """The screens that say something of a trace file, the timeline at its largest gap."""
    for shot in TRACE_SHOTS:
        for size in SIZES:
            await draw(trace, shot, size, out)


async def draw(root: Path, shot: Shot, size: tuple[int, int], out: Path) -> None:
    """One picture, and say which."""
    path = out / f"{shot.name}-{size[0]}x{size[1]}"
    await take(root, shot, size, path)
    print(path.name, flush=True)


if __name__ == "__main__":
    sys.exit(main())
