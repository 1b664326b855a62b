"""What perftui must do where it is installed and torch is not.

    cd CLONE; PYTHON -m tests.installed [--pure]

PYTHON is the one it is installed for, which needs nothing else. ``--pure``: the wheel that was
installed has no compiled parts."""

import argparse
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import perftui
from perftui.agent.native import IS_COMPILED
from perftui.trace.columns.native import compiled
from tests.traces.builder import TraceBuilder, ms, us

COMMAND = Path(sys.executable).parent / "perftui"


def write_trace(path: Path, *, compute: int = ms(4)) -> Path:
    """40 steps of 10 ms, each of which launches one kernel of ``compute`` ns."""

    def step(trace: TraceBuilder) -> None:
        begin = trace.now
        trace.step().op("aten::mm").launch("gemm", compute, call=us(20)).close()
        trace.at(begin + ms(10) - us(10)).end().at(begin + ms(10))

    return TraceBuilder().repeat(40, step).write(path)


def perftui_prints(*arguments: str | Path, code: int = 0) -> str:
    """Standard output of ``perftui ARGUMENTS``, which must exit with ``code`` and say no more."""
    words = [str(COMMAND), *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, ""), (words, done)
    return done.stdout


def check_parts(*, pure: bool) -> None:
    """What is imported is what was installed, with its compiled parts unless it has none."""
    assert Path(sys.prefix) in Path(perftui.__file__).parents, perftui.__file__
    assert importlib.util.find_spec("torch") is None
    assert perftui.__version__ == importlib.metadata.version("perftui")
    assert [IS_COMPILED, compiled() is not None] == [not pure, not pure]
    perftui_prints("--help")
    assert perftui_prints("--version") == f"perftui {perftui.__version__}\n"


def check_traces(folder: Path) -> None:
    """Report, compare and check two traces, by command and in Python."""
    short = write_trace(folder / "short.pt.trace.json")
    long = write_trace(folder / "long.pt.trace.json", compute=ms(8))
    assert "gemm" in perftui_prints("report", "--full", short)
    report: dict[str, Any] = json.loads(perftui_prints("report", "--json", short))
    (kernel,) = report["kernels"]
    assert (kernel["name"], kernel["calls"], kernel["device"]) == ("gemm", 40, 40 * ms(4))
    page = folder / "report.html"
    perftui_prints("report", "--html", page, short)
    assert "gemm" in page.read_text(encoding="utf-8")
    # One step of each is as long: what differs is what the GPU does.
    assert "4.0 ms -> 8.0 ms" in perftui_prints("compare", short, long, code=4)
    assert "passed: 3 checks" in perftui_prints("check", long, "--against", short)
    trace = perftui.load_trace(short)
    assert trace.kernels.to_dict()["calls"] == [40]


def main() -> None:
    """Raise AssertionError at the first thing that is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pure", action="store_true")
    pure: bool = parser.parse_args().pure
    check_parts(pure=pure)
    with tempfile.TemporaryDirectory() as folder:
        check_traces(Path(folder))
    kind = "without compiled parts" if pure else "with its compiled parts"
    print(f"perftui {perftui.__version__} works {kind}, on Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
