"""`perftui report PATH`: the diagnosis in any form, without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.format import size
from perftui.run.files import replace_file
from perftui.trace.model import TraceError
from perftui.trace.text import printable
from perftui_tui.commands.line import FORMS, CommandLine, UsageError
from perftui_tui.commands.output import log, refusing, waiting, write
from perftui_tui.commands.target import Target, find_target, subject_of

if TYPE_CHECKING:
    from perftui.report.kind import Kind
    from perftui.report.report import Report
    from perftui.trace.ncu import KernelMetrics


def report(line: CommandLine) -> int:
    """Print the report of what ``line`` names, of the newest run where it names nothing."""
    return print_report(find_target(line), line)


def print_report(target: Target, line: CommandLine) -> int:
    """Print the report of ``target`` as ``line`` asks for it."""
    special, metrics = kind(target), read_metrics(target, line)
    if special is not None:
        _print_special(target, special, line)
        return 0
    scheduler = line.values.get("scheduler", "")
    if scheduler and not target.ranks:
        raise UsageError("--scheduler reads the traces of a directory of ranks: name one")
    result = _report(target, metrics, line.values.get("top"), scheduler)
    if "redact" in line.flags:
        from perftui.report.redaction.known_private import redacted

        result = redacted(result)
    if result.redaction is not None and {"csv", "folded", "perfetto"} & {*line.flags, *line.values}:
        # Readers of these forms have no line for it.
        log(result.redaction.head)
    if "csv" in line.values:
        _print_table(result, line.values["csv"])
    elif "folded" in line.flags:
        from perftui.report import folded_stacks

        with refusing(folded_stacks.NoStacksError, where="--folded prints stacks"):
            write(text_of(folded_stacks.render, result), as_json=True)
    elif "perfetto" in line.values:
        _write_trace(result, line.values["perfetto"])
    elif "html" in line.values:
        _write_page(result, line.values["html"])
    else:
        write(text_of(_form(line), result), as_json="json" in line.flags)
    return 0


def kind(target: Target) -> Kind | None:
    """The kind of a file that is no trace; None for any other."""
    from perftui.report.kind import kind_of

    with refusing(OSError, where=f"{target.path} cannot be read"):
        return kind_of(target.path)


def _print_special(target: Target, special: Kind, line: CommandLine) -> None:
    from perftui.report.redaction.private_forms import RedactionError
    from perftui.report.snapshots_and_ncu import special_report

    for option in ("brief", *FORMS):
        if option in line.flags or option in line.values:
            has_findings = option in ("brief", "markdown", "html")
            what = "prints findings" if has_findings else "needs a run or a trace"
            raise UsageError(f"--{option} {what}, and {target.path} is a {special.value}")
    as_json, redact = "json" in line.flags, "redact" in line.flags
    with refusing(TraceError, RedactionError):
        text = special_report(target.path, special, as_json=as_json, redact=redact)
    write(text, as_json=as_json)


def read_metrics(target: Target, line: CommandLine) -> KernelMetrics | None:
    """What ncu measured of the kernels of ``target``; None without ``--ncu``."""
    if "ncu" not in line.values:
        return None
    from perftui.trace.ncu import load_ncu

    special = kind(target)
    if special is not None:
        raise UsageError(f"--ncu joins metrics to a trace; {target.path} is a {special.value}")
    with refusing(TraceError):
        return load_ncu(line.values["ncu"])


def _report(target: Target, ncu: KernelMetrics | None, top: int | None, scheduler: str) -> Report:
    from perftui.facts.ranks.parallel_reading import ClusterError
    from perftui.report.report import make_report
    from perftui.report.subject import paths_of, read_beside

    subject = subject_of(target, exports=True)
    if ncu is not None and subject.analysis is None:
        raise UsageError(f"--ncu joins metrics to a trace, and {target.path} has none")
    subject = replace(subject, notes=(*target.notes, *subject.notes), beside=paths_of(target.ranks))
    with refusing(ClusterError, OSError), waiting(f"judging {target.path.name}") as tell:
        ranks = read_beside(subject, lambda n, m: tell(f"{n} of {m} ranks read"), scheduler)
        return make_report(replace(subject, ranks=ranks), ncu, top)


def text_of(render: Callable[[Report], str], report: Report) -> str:
    """What ``render`` makes of the report, unless something private would be left in it."""
    from perftui.report.redaction.known_private import rendered
    from perftui.report.redaction.private_forms import RedactionError

    with refusing(RedactionError), waiting("writing the report"):
        return rendered(render, report)


def _form(line: CommandLine) -> Callable[[Report], str]:
    from perftui.report import as_json, markdown, text

    flags, tables = line.flags, {"top", "ncu"} & line.values.keys()
    if "markdown" in flags:
        return markdown.render
    if "json" in flags:
        return text.brief_json if "brief" in flags else as_json.encode
    return text.render if "full" in flags or tables else text.brief_text


def _print_table(report: Report, name: str) -> None:
    from perftui.report.csv_tables import csv_text, table_named
    from perftui.report.output_text import replaced

    table = table_named(name, report)
    if table.note:
        log(f"{name}: {text_of(lambda _: replaced(table.note), report)}")
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    write(text_of(lambda _: csv_text(table, for_terminal=is_terminal), report), as_json=True)


def _write_page(report: Report, file: Path) -> None:
    """Write ``found`` as HTML; readable by its owner alone, as runs are. Where that fails, a file
    that was there is untouched."""
    from perftui.report.html.page import render

    content = text_of(render, report).encode()
    with refusing(OSError, where=f"{file} cannot be written"):
        replace_file(file, content)
    write(f"{printable(str(file))} written, {size(len(content))}\n")


def _write_trace(report: Report, path: Path) -> None:
    from perftui.report.perfetto import PerfettoError, write_perfetto
    from perftui.report.redaction.private_forms import RedactionError

    with (
        refusing(OSError, where=f"{path} cannot be written"),
        refusing(PerfettoError, RedactionError, TraceError),
        waiting(f"writing {path.name}"),
    ):
        added, is_whole = write_perfetto(report, path)
    tracks = ", ".join(f"{track.name} ({len(track.spans):,})" for track in added)
    events = "all events of the trace" if is_whole else "its kernels and copies"
    write(f"{printable(str(path))}: {events}, and tracks of perftui: {tracks or 'none'}\n")
    write("Open it at https://ui.perfetto.dev\n")
