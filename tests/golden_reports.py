"""What ``report``, ``compare`` and ``check`` print of many traces and runs, in every form: kept
once, and compared after a change.

    python -m tests.golden_reports save KEPT TRACES GPU_RUNS
    python -m tests.golden_reports check KEPT [--every 8]

``TRACES`` is a directory of traces in any format, ``GPU_RUNS`` one of archives (``*.tar.xz``) of
run directories, which are unpacked into ``KEPT``. A change that moves code leaves every form equal;
one that changes reports on purpose is followed by ``save``, and says which changed."""

import argparse
import contextlib
import difflib
import io
import json
import multiprocessing
import os
import re
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

from tests.core.report.html.pages import Node, read

NOT_TRACES = {".md", ".csv", ".txt", ".py", ""}
SHOWN_LINES = 30

HTML = "report.html"
TABLES = ("operators", "kernels", "modules", "steps", "gaps", "findings")
FORMS = {
    "text": ("report", "--full"),
    "json": ("report", "--json"),
    "brief": ("report", "--brief"),
    "markdown": ("report", "--markdown"),
    "html": ("report", "--html", HTML),
    "folded": ("report", "--folded"),
    "redacted": ("report", "--full", "--redact"),
    "check": ("check", "--json", "--fail-on", "warning"),
    **{f"csv {table}": ("report", "--csv", table) for table in TABLES},
}
"""Of a trace or run: the words of the command before its path."""

COMPARISONS = {
    "compare": ("compare", "--no-repeats"),
    "compare json": ("compare", "--no-repeats", "--json"),
}
"""Of two runs of one training."""


def printed(words: Sequence[str]) -> str:
    """What a command prints and writes, and its exit code."""
    from perftui_tui.cli import main

    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code: object = main(list(words))
            except SystemExit as ended:
                code = ended.code
        page = Path(HTML).read_text() if Path(HTML).exists() else ""
        os.chdir("/")
    return f"exit {code}\n{err.getvalue()}{out.getvalue()}{page}"


def _elements(node: Node) -> Iterator[str]:
    """Elements and texts as a browser reads them: without blanks, numbers to a tenth."""
    for child in node.children:
        if isinstance(child, str):
            yield from filter(None, ["".join(child.split())])
            continue
        attributes = sorted(child.attributes.items())
        yield f"<{child.tag} {' '.join(f'{name}={_tenth(one)}' for name, one in attributes)}>"
        yield from _elements(child)
        yield f"</{child.tag}>"


def _tenth(value: str) -> str:
    return f"{float(value):.1f}" if re.fullmatch(r"-?[\d.]+", value) else value


def lines_of(form: str) -> list[str]:
    """The lines of a form; of a page its elements and texts."""
    told, start, page = form.partition("<!DOCTYPE html>")
    without_size = re.sub(r"(?<=html written), .*", "", told) if start else told
    return [*without_size.splitlines(), *_elements(read(start + page))]


def forms_of(paths: tuple[str, ...]) -> dict[str, str]:
    """Every form of one trace or run, or of two runs compared."""
    forms = FORMS if len(paths) == 1 else COMPARISONS
    return {name: printed((*words, *paths)) for name, words in forms.items()}


def all_forms(
    subjects: Sequence[tuple[str, ...]],
) -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
    """The forms of each of ``subjects``, by two processes."""
    os.environ["PERFTUI_CACHE"] = "off"
    with multiprocessing.get_context("fork").Pool(2) as pool:
        yield from zip(subjects, pool.imap(forms_of, subjects), strict=True)


def subjects_of(kept: Path, traces: Path, runs: Path) -> list[tuple[str, ...]]:
    """Every trace and run, and every two runs of one training; runs are unpacked below ``kept``."""
    unpacked = kept.resolve() / "runs"
    for archive in sorted(runs.glob("*.tar.xz")):
        target = unpacked / archive.name.removesuffix(".tar.xz")
        if not target.exists():
            with tarfile.open(archive) as tar:
                tar.extractall(target, filter="data")
    roots = sorted(manifest.parent for manifest in unpacked.rglob("run.json"))
    files = sorted(path.resolve() for path in traces.rglob("*") if path.is_file())
    single = [path for path in files if path.suffix not in NOT_TRACES] + roots
    pairs = [pair for pair in combinations(roots, 2) if pair[0].parent == pair[1].parent]
    return [*((str(path),) for path in single), *((str(one), str(two)) for one, two in pairs)]


def save(kept: Path, traces: Path, runs: Path) -> int:
    """Keep all forms, a file for each subject, and the list of subjects."""
    kept.mkdir(parents=True, exist_ok=True)
    subjects = subjects_of(kept, traces, runs)
    for number, (_, forms) in enumerate(all_forms(subjects)):
        (kept / f"{number:03d}.json").write_text(json.dumps(forms))
    (kept / "subjects.json").write_text(json.dumps(subjects, indent=1))
    print(f"{len(subjects)} traces, runs and comparisons kept")
    return 0


def check(kept: Path, every: int) -> int:
    """Print how the forms of each ``every``-th subject differ from those kept; 1 where any does."""
    subjects = [tuple(paths) for paths in json.loads((kept / "subjects.json").read_text())][::every]
    different = count = 0
    for number, (paths, forms) in enumerate(all_forms(subjects)):
        before = json.loads((kept / f"{number * every:03d}.json").read_text())
        for name in sorted({*before, *forms}):
            was, now = before.get(name, ""), forms.get(name, "")
            count += 1
            sides = (lines_of(was), lines_of(now)) if "html" in name else None
            if was == now or (sides and sides[0] == sides[1]):
                continue
            different += 1
            one, two = sides or (was.splitlines(), now.splitlines())
            lines = difflib.unified_diff(one, two, n=0, lineterm="")
            print(
                f"== {name} of {' and '.join(paths)}", *list(lines)[2 : 2 + SHOWN_LINES], sep="\n"
            )
    print(f"{count - different} of {count} forms are equal")
    return 1 if different else 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    saving = commands.add_parser("save")
    checking = commands.add_parser("check")
    for each in (saving, checking):
        each.add_argument("kept", type=Path)
    saving.add_argument("traces", type=Path)
    saving.add_argument("gpu_runs", type=Path)
    checking.add_argument("--every", type=int, default=1, help="take one of so many subjects")
    given = parser.parse_args()
    if given.command == "check":
        return check(given.kept, given.every)
    return save(given.kept, given.traces, given.gpu_runs)


if __name__ == "__main__":
    sys.exit(main())
