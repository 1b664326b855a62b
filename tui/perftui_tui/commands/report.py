"""`perftui report PATH`: the diagnosis in any form, without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.trace.text import printable
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import export_progress, log, rank_progress, write, write_data
from perftui_tui.commands.target import Target, find_target

if TYPE_CHECKING:
    from perftui.report.kind import Kind
    from perftui.report.report import Report
    from perftui.trace.ncu import KernelMetrics


def text_of(render: Callable[[Report], str], found: Report) -> str:
    """What ``render`` makes of the report.

    Raises:
        UsageError: it is to be redacted, and something private would be left in it.
    """
    from perftui.report.redaction.redact import rendered
    from perftui.report.redaction.redactor import RedactionError

    try:
        return rendered(render, found)
    except RedactionError as error:
        raise UsageError(str(error)) from error


def print_data(report: Report, form: str, line: CommandLine) -> None:
    """Print the table that ``line`` names, print the stacks, or write the trace, as ``form`` says.

    Raises:
        UsageError: there is nothing to print, or the file cannot be written.
    """
    if report.redaction is not None:
        # Readers of these forms have no line for it.
        log(report.redaction.head)
    if form == "csv":
        _print_table(report, line.values["csv"])
    elif form == "folded":
        _print_stacks(report)
    else:
        _write_trace(report, Path(line.values["perfetto"]))


def _print_table(report: Report, name: str) -> None:
    from perftui.report.csv_tables import csv_text, table_named
    from perftui.report.output_text import replaced

    table = table_named(name, report)
    if table.note:
        log(f"{name}: {text_of(lambda _: replaced(table.note), report)}")
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    write_data(text_of(lambda _: csv_text(table, for_terminal=is_terminal), report))


def _print_stacks(report: Report) -> None:
    from perftui.report.folded_stacks import NoStacksError, render

    try:
        write_data(text_of(render, report))
    except NoStacksError as error:
        raise UsageError(f"--folded prints stacks: {error}") from error


def _write_trace(report: Report, path: Path) -> None:
    from perftui.report.perfetto import PerfettoError, write_perfetto
    from perftui.report.redaction.redactor import RedactionError
    from perftui.trace.model import TraceError
    from perftui.trace.text import printable

    try:
        written = write_perfetto(report, path)
    except (PerfettoError, RedactionError, TraceError) as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
    tracks = ", ".join(f"{one.name} ({len(one.spans):,})" for one in written.tracks)
    events = "all events of the trace" if written.has_original else "its kernels and copies"
    write(f"{printable(str(path))}: {events}, and tracks of perftui: {tracks or 'none'}\n")
    write("Open it at https://ui.perfetto.dev\n")


def report(line: CommandLine) -> int:
    """Print the report of what ``line`` names, of the newest run where it names nothing.

    Raises:
        UsageError: it cannot be read.
    """
    return print_report(find_target(line), line)


def print_report(target: Target, line: CommandLine) -> int:
    """Print the report of ``target`` as ``line`` asks for it.

    Raises:
        UsageError: it cannot be read, or not joined to the metrics that ``line`` names.
    """
    special, metrics = kind(target), read_metrics(target, line)
    as_json = "json" in line.flags
    if special is not None:
        _refuse_forms(target, line, special)
        redact = "redact" in line.flags
        write(_special(target.path, special, as_json=as_json, redact=redact), as_json=as_json)
        return 0
    scheduler = line.values.get("scheduler", "")
    if scheduler and not target.ranks:
        raise UsageError("--scheduler reads the traces of a directory of ranks: name one")
    found = _report(target, metrics, line.number("top"), scheduler)
    if "redact" in line.flags:
        from perftui.report.redaction.redact import redacted

        found = redacted(found)
    if data_form := {"csv", "folded", "perfetto"} & {*line.flags, *line.values}:
        print_data(found, data_form.pop(), line)
    elif "html" in line.values:
        _write_page(found, Path(line.values["html"]))
    else:
        write(text_of(_form(line.flags), found), as_json=as_json)
    return 0


def _refuse_forms(target: Target, line: CommandLine, special: Kind) -> None:
    for option in ("brief", "markdown", "html"):
        if option in line.flags or option in line.values:
            raise UsageError(f"--{option} prints findings, and {target.path} is a {special.value}")
    for option in ("csv", "folded", "perfetto"):
        if option in line.flags or option in line.values:
            raise UsageError(
                f"--{option} needs a run or a trace, and {target.path} is a {special.value}"
            )


def _form(flags: frozenset[str]) -> Callable[[Report], str]:
    if "markdown" in flags:
        from perftui.report.markdown import render as render_markdown

        return render_markdown
    as_json = "json" in flags
    if "brief" in flags:
        from perftui.report.brief import brief_json, brief_text

        return brief_json if as_json else brief_text
    from perftui.report.as_json import encode
    from perftui.report.text import render

    return encode if as_json else render


def _write_page(found: Report, file: Path) -> None:
    """Write ``found`` as HTML; readable by its owner alone, as runs are.

    Raises:
        UsageError: the file cannot be written; one that was there is then untouched.
    """
    from perftui.format import size
    from perftui.report.html.page import render
    from perftui.run.files import replace_file

    content = text_of(render, found).encode()
    try:
        replace_file(file, content)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error
    write(f"{printable(str(file))} written, {size(len(content))}\n")


def kind(target: Target) -> Kind | None:
    """The content of a file that is no trace.

    Raises:
        UsageError: it cannot be read.
    """
    from perftui.report.kind import kind_of

    try:
        return kind_of(target.path)
    except OSError as error:
        raise UsageError(f"{target.path} cannot be read: {error.strerror}") from error


def _special(path: Path, special: Kind, *, as_json: bool, redact: bool) -> str:
    from perftui.report.redaction.redactor import RedactionError
    from perftui.report.special import special_report
    from perftui.trace.model import TraceError

    try:
        return special_report(path, special, as_json=as_json, redact=redact)
    except (TraceError, RedactionError) as error:
        raise UsageError(str(error)) from error


def _report(
    target: Target, measured: KernelMetrics | None, top: int | None, scheduler: str
) -> Report:
    from perftui.facts.ranks.parallel_reading import ClusterError
    from perftui.report.report import make_report
    from perftui.report.subject import SubjectError, load_subject, paths_of, read_beside

    try:
        subject = load_subject(target.path, export_progress(target.path.name), target.rank or 0)
        if measured is not None and subject.analysis is None:
            raise UsageError(f"--ncu joins metrics to a trace, and {target.path} has none")
        notes = (*target.notes, *subject.notes)
        subject = replace(subject, notes=notes, beside=paths_of(target.ranks))
        ranks = read_beside(subject, rank_progress(), scheduler)
        return make_report(replace(subject, ranks=ranks), measured, top)
    except (SubjectError, ClusterError, OSError) as error:
        raise UsageError(str(error)) from error


def read_metrics(target: Target, line: CommandLine) -> KernelMetrics | None:
    """What ncu measured of the kernels of ``target``; None where no report of it is named.

    Raises:
        UsageError: the file cannot be read or is no report of it, or ``target`` is no trace.
    """
    if "ncu" not in line.values:
        return None
    from perftui.trace.model import TraceError
    from perftui.trace.ncu import load_ncu

    special = kind(target)
    if special is not None:
        raise UsageError(f"--ncu joins metrics to a trace; {target.path} is a {special.value}")
    try:
        return load_ncu(Path(line.values["ncu"]))
    except TraceError as error:
        raise UsageError(str(error)) from error
