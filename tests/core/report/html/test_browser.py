"""A real browser opens the page: on a phone and on a desktop, by file, without a network."""

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from perftui.report.html.page import render
from perftui.report.report import Report, make_report
from perftui.report.subject import load_subject
from perftui.trace.ncu import load_ncu
from tests.core.report.html.browser import NAMES, Page, browser, chromium
from tests.core.report.html.pages import NASTY, gpu_trace, run_with_fix
from tests.core.report.test_special_reports import write_metrics
from tests.gpu.record import RUNS
from tests.tui.test_ranks_screen import write_run_of_ranks

pytestmark = pytest.mark.subprocess

PHONE, DESKTOP = (360, 740), (1280, 800)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    program = chromium()
    if program is None:
        pytest.skip(f"no Chromium: none of {', '.join(NAMES)} is on the PATH")
    with browser(program, tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "ranks").mkdir()
    subjects = {
        "run": run_with_fix(folder),
        "trace": gpu_trace(folder / "trace.json", f"{NASTY}{'x' * 300}"),
        "ranks": write_run_of_ranks(folder / "ranks", 0, 0, 30),
        "gpu": gpu_run(folder / "gpu"),
    }
    reports = {name: make_report(load_subject(path)) for name, path in subjects.items()}
    reports["measured"] = with_metrics(folder)
    for name, report in reports.items():
        (folder / f"{name}.html").write_text(render(report))
    return [folder / f"{name}.html" for name in reports]


def gpu_run(folder: Path) -> Path:
    """A run with calls that wait for the GPU, phases timed there, and its memory."""
    folder.mkdir()
    with tarfile.open(RUNS / "item.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def with_metrics(folder: Path) -> Report:
    """A trace of a kernel with a long name, with what Nsight Compute measured of it."""
    kernel = f"gemm{'_128x128' * 20}"
    measured = write_metrics(folder / "kernels.csv", [(kernel, "3000000", "80", "30", "50")])
    return make_report(load_subject(gpu_trace(folder / "gemm.json", kernel)), load_ncu(measured))


@pytest.mark.slow
@pytest.mark.parametrize("size", [PHONE, DESKTOP])
@pytest.mark.parametrize("dark", [False, True])
def test_a_page_fits_its_window_and_its_console_stays_empty(
    page: Page, files: list[Path], size: tuple[int, int], dark: bool
) -> None:
    for file in files:
        assert page.open(file.as_uri(), *size, dark=dark) == []
        assert page.value("innerWidth") == size[0]
        assert page.value("document.documentElement.scrollWidth") <= size[0]
        assert page.value("document.querySelectorAll('h2').length") > 2
        ground = page.value("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(16, 20, 24)" if dark else "rgb(255, 255, 255)")


def test_a_name_that_is_a_script_is_shown_and_never_run(page: Page, files: list[Path]) -> None:
    assert page.open(files[1].as_uri(), *DESKTOP) == []
    assert page.value("document.querySelectorAll('script, img').length") == 0
    assert NASTY in page.value("document.body.innerText")


def test_a_rectangle_has_the_size_of_its_event_on_the_screen(page: Page, files: list[Path]) -> None:
    page.open(files[1].as_uri(), *DESKTOP)
    shares = page.value(
        """[...document.querySelectorAll('.track rect')].map(one => {
            const whole = one.ownerSVGElement.getBoundingClientRect()
            const box = one.getBoundingClientRect()
            return [one.getAttribute('x') / 1e4, (box.left - whole.left) / whole.width,
                    one.getAttribute('width') / 1e4, box.width / whole.width, box.height]
        })"""
    )
    assert len(shares) > 5
    for x, left, width, wide, height in shares:
        assert left == pytest.approx(x, abs=1e-3)
        assert wide == pytest.approx(width, abs=1e-3)
        assert height > 15


def test_the_page_prints_with_its_evidence(page: Page, files: list[Path]) -> None:
    page.open(files[0].as_uri(), *DESKTOP, dark=True)
    page.send("Emulation.setEmulatedMedia", media="print")
    ground = page.value("getComputedStyle(document.body).backgroundColor")
    page.send("Emulation.setEmulatedMedia", media="")
    assert ground == "rgb(255, 255, 255)"
    assert len(page.send("Page.printToPDF", printBackground=True)["data"]) > 10_000
