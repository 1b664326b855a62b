"""The wheels, built from what the source archive holds, in an environment without torch."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

import pytest

from perftui import __version__
from perftui.agent.native import IS_COMPILED
from perftui_tui.cli import main
from tests.capture.watched import clean_environment, ended, quick_environment, recorded
from tests.environments import install, make_environment
from tests.installed import write_trace
from tests.terminal import Terminal
from tests.tui.recorded import ENDED, write_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.subprocess,
    pytest.mark.skipif(not IS_COMPILED, reason="no compiler here that makes the compiled parts"),
]

ROOT = Path(__file__).parents[2]
LIBRARIES = {"perftui/agent/native/_compiled.abi3.so", "perftui/trace/columns/_native.so"}

TRAIN = """\
import importlib.metadata, sys
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for batch in DataLoader(torch.ones(160, 8), batch_size=8):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
print(sys.prefix, [one.name for one in importlib.metadata.distributions() if "perf" in one.name])
"""


@dataclass(frozen=True)
class Built:
    """Files that were built."""

    sdist: Path
    wheel: Path
    pure: Path


def build(source: Path, target: str, into: Path, **environment: str) -> Path:
    """What hatchling, which ``pip wheel`` and ``python -m build`` call, makes of ``source``."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "-d", str(into)]
    done = subprocess.run(
        command,
        cwd=source,
        env={**clean_environment(), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (built,) = into.iterdir()
    return built


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The source archive of this tree, and both wheels of what is in it."""
    folder = tmp_path_factory.mktemp("dist")
    sdist = build(ROOT, "sdist", folder / "sdist")
    shutil.unpack_archive(sdist, folder, filter="data")
    source = folder / f"perftui-{__version__}"
    return Built(
        sdist,
        build(source, "wheel", folder / "wheel"),
        build(source, "wheel", folder / "pure", HATCH_BUILD_NO_HOOKS="true"),
    )


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def metadata_of(wheel: Path, name: str) -> dict[str, list[str]]:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"perftui-{__version__}.dist-info/{name}").decode()
    headers = HeaderParser().parsestr(text)
    return {name: headers.get_all(name, []) for name in headers}


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment with what the wheel requires and the wheel."""
    requires = metadata_of(built.wheel, "METADATA")["Requires-Dist"]
    python = make_environment(tmp_path_factory.mktemp("tool"), requires)
    install(python, built.wheel)
    return python


@pytest.fixture
def terminal(installed: Path, tmp_path: Path) -> Iterator[Terminal]:
    """The installed command with a saved run in a terminal of its own."""
    run = write_run(tmp_path, **ENDED)
    opened = Terminal([str(installed.with_name("perftui")), "replay", str(run)], tmp_path)
    yield opened
    opened.close()


def test_the_source_archive_holds_what_builds_and_tests_it(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        inside = {Path(*Path(name).parts[1:]) for name in archive.getnames()}
    assert [str(path) for path in inside if path.suffix in {".so", ".pyc", ".new"}] == []
    here = Path(__file__).relative_to(ROOT)
    needed = ("pyproject.toml", "LICENSE", "constraints.txt", "core/build_native.py")
    sources = ("core/perftui/agent/native/compiled.c", "core/perftui/agent/native/compiled.h")
    assert {Path(one) for one in (*needed, *sources, "docs/json.md")} | {here} <= inside


def test_one_wheel_is_for_every_python_of_this_platform_and_one_for_all(built: Built) -> None:
    assert metadata_of(built.pure, "WHEEL")["Tag"] == ["py3-none-any"]
    (tag,) = metadata_of(built.wheel, "WHEEL")["Tag"]
    assert tag.startswith("py3-none-")
    assert tag != "py3-none-any", "no compiler made anything"
    parts, plain = names_in(built.wheel), names_in(built.pure)
    assert parts - plain == LIBRARIES
    assert plain <= parts
    suffixes = {"", ".css", ".html", ".md", ".py", ".pyi", ".so", ".tcss", ".typed", ".txt"}
    assert {Path(name).suffix for name in parts} <= suffixes
    metadata = metadata_of(built.wheel, "METADATA")
    assert metadata == metadata_of(built.pure, "METADATA")
    assert metadata["Requires-Python"] == [">=3.10"]
    assert not [one for one in metadata["Requires-Dist"] if "torch" in one and "extra" not in one]


def test_without_torch_it_reports_compares_and_checks(installed: Path) -> None:
    worked = ended((str(installed), "-m", "tests.installed"), ROOT)
    assert (worked.code, worked.err) == (0, "")
    assert f"perftui {__version__} works with its compiled parts" in worked.out


def test_a_report_is_the_same_from_both_wheels_and_from_this_tree(
    built: Built, installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = write_trace(tmp_path / "trace.json")
    assert main(["report", "--json", str(trace)]) == 0
    ours = capsys.readouterr().out
    report = (str(installed.with_name("perftui")), "report", "--json", str(trace))
    assert ended(report, tmp_path).out == ours
    shutil.unpack_archive(built.pure, tmp_path / "pure", format="zip")
    pure = (str(installed), "-m", "perftui_tui", *report[1:])
    found = ended(pure, tmp_path, {**clean_environment(), "PYTHONPATH": str(tmp_path / "pure")})
    assert (found.code, found.err, found.out) == (0, "", ours)


def test_it_replays_a_run_in_a_terminal(terminal: Terminal) -> None:
    terminal.wait_for("num_workers 0 -> 4")
    terminal.press("9")
    terminal.wait_for("20231114-221320-train")
    terminal.press("q")
    assert terminal.wait() == 0


def test_it_profiles_a_script_of_another_environment(installed: Path, tmp_path: Path) -> None:
    training = make_environment(tmp_path / "training", ["torch", "numpy"])
    (tmp_path / "train.py").write_text(TRAIN)
    perftui = (str(installed.with_name("perftui")), "--headless", "--runs", "runs")
    command = (*perftui, "--python", str(training), "train.py")
    done = ended(command, tmp_path, quick_environment())
    assert (done.code, done.out) == (0, f"{training.parent.parent} []\n")
    run = recorded(tmp_path)
    assert run.manifest.torch_version
    assert len(run.ranks[0].steps) == 20
