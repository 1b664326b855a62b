"""What is private in a run, a trace or a file, and reports of them without it."""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from perftui.facts.fact import notes_of
from perftui.report.output_text import map_texts
from perftui.report.redaction.private_forms import Known, Redaction, Redactor, shown_program
from perftui.report.report import Report
from perftui.report.subject import Subject
from perftui.run.manifest import BY_HOST, GPU_DEVICES, GPU_PROCESSES, OTHER_PROGRAMS, Manifest
from perftui.run.reader import RunSnapshot

_SECRET = re.compile(
    r"(?i)token|secret|passw|passphrase|(?<![a-z])pwd|api[-_.]?key|access[-_.]?key|private"
    r"|credential|(?<![a-z])auth(?!or)|bearer|(?:^|[-_.])(?:key|pat|webhook|dsn)$"
)
_TOKENIZER = re.compile(
    r"(?i)tokeni[sz]|(?:max|num|n|min|new|per|vocab|pad|eos|bos)[-_.].*token|tokens"
)
"""Names of options of language models, whose tokens are words."""

_PLAIN = re.compile(r"(?i)[-+]?[\d.]+(?:e[-+]?\d+)?|true|false|none|null|yes|no|on|off|auto")
"""Values that are no secret."""

_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)

_OPAQUE = re.compile(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_+-]{24,}={0,2}")
"""Long words of letters and digits, as keys are."""


def secrets_of(command: Sequence[str]) -> Iterator[str]:
    """The values in ``command`` that may be secret: of variables that are set before a program, of
    options that are named like secrets, and words that look like keys."""
    is_before = True
    after_secret = False
    for number, word in enumerate(command):
        name, equals, value = word.partition("=")
        is_set = bool(equals) and _VARIABLE.fullmatch(word) is not None
        is_before = is_before and (number == 0 or is_set or word.startswith("-"))
        if after_secret and not word.startswith("--"):
            yield from _if_secret(word)
        elif equals and (_is_secret(name) or (is_before and is_set)):
            yield from _if_secret(value)
        elif _OPAQUE.fullmatch(word):
            yield word
        elif equals and _OPAQUE.fullmatch(value):
            yield value
        after_secret = word.startswith("-") and not equals and _is_secret(word)


def _is_secret(name: str) -> bool:
    return _SECRET.search(name) is not None and _TOKENIZER.search(name) is None


def _if_secret(value: str) -> Iterator[str]:
    if not _PLAIN.fullmatch(value):
        yield value


SHORTEST = 2
"""Letters of a name: shorter ones would be found in every text."""

NOBODY = frozenset(
    (
        *("root", "localhost", "home", "admin", "ubuntu", "dev", "local", "server", "client"),
        *("user", "users", "host", "hosts", "path", "paths", "program", "value", "url", "email"),
        *("address", "uuid", "node", "nodes", "gpu", "gpus", "cpu", "cuda", "data", "train"),
        *("training", "trainer", "trace", "traces", "run", "runs", "rank", "ranks", "step"),
        *("steps", "time", "times", "main", "model", "models", "test", "tests", "worker"),
        *("workers", "loader", "python", "torch", "perftui", "project", "job", "task", "batch"),
        *("memory", "disk", "network", "kernel", "kernels", "operator", "operators", "none"),
        *("true", "false", "null"),
    )
)
"""Names that tell nothing about anybody, or are words of every report."""

_HOME = re.compile(r"/(?:home|Users)/([^/]+)(?=/|$)")
_TRACE_OF_HOST = re.compile(r"(.+?)_\d+\.(?:\d+\.)?pt\.trace\.json")
"""``torch.profiler`` calls its traces after the host and the process."""


def known_here() -> Known:
    """Private text of this machine: users, hosts, homes and the project."""
    home, user = str(Path.home()), ""
    # Containers give processes numbers that no user has.
    with suppress(OSError, KeyError, ImportError):
        user = getpass.getuser()
    return Known(
        users=_private(user, *_HOME.findall(home)),
        hosts=_hosts(socket.gethostname()),
        homes=_homes([home]),
        projects=_projects([str(Path.cwd())]),
    )


def known_of(report: Report) -> Known:
    """Private text of this machine, and of where the report's subject was recorded."""
    here, subject = known_here(), report.subject
    files = [str(subject.path), *_files(report), *(str(path) for _, path in subject.beside)]
    # Names of the trace, such as those of Python functions, hold home directories.
    names = subject.analysis.trace.names if subject.analysis else ()
    homes = {home[0] for home in map(_HOME.search, names) if home}
    known = _with_files(here, [*files, *homes], _hosts_of_trace(subject))
    return known if subject.run is None else _with_run(known, subject.run)


def _with_files(known: Known, files: Iterable[str], hosts: Iterable[str] = ()) -> Known:
    files = tuple(files)
    users = [user for file in files for user in _HOME.findall(file)]
    return replace(
        known,
        users=_private(*known.users, *users),
        hosts=_hosts(*known.hosts, *hosts),
        homes=_homes([*known.homes, *files]),
        paths=_absolute([*known.paths, *files]),
    )


def _hosts_of_trace(subject: Subject) -> Iterator[str]:
    """Host names in the name of the trace, and in a field that some tools add."""
    if match := _TRACE_OF_HOST.match(subject.path.name):
        yield match[1]
    metadata = subject.analysis.trace.metadata if subject.analysis else {}
    yield from (str(metadata[name]) for name in ("hostname", "host") if name in metadata)


def _with_run(known: Known, run: RunSnapshot) -> Known:
    manifest = run.manifest
    files = (manifest.cwd, manifest.interpreter, str(run.root), *manifest.command)
    programs = (*_programs(manifest), *_entries(manifest, GPU_PROCESSES, "program"))
    known = _with_files(known, files, _hosts_of(run))
    return replace(
        known,
        users=_private(*known.users, *_entries(manifest, GPU_PROCESSES, "user")),
        projects=_projects([*_roots(run), *known.projects]),
        programs=_private(*(form for name in programs for form in (name, shown_program(name)))),
        values=_private(*secrets_of(manifest.command)),
        uuids=_private(*_entries(manifest, GPU_DEVICES, "uuid"), *_seen_gpus(run)),
    )


def _private(*names: str) -> tuple[str, ...]:
    private = (name for name in names if len(name) >= SHORTEST and name.lower() not in NOBODY)
    return tuple(dict.fromkeys(private))


def _hosts(*names: str) -> tuple[str, ...]:
    """Host names, each with its domain and without it."""
    return _private(*names, *(name.partition(".")[0] for name in names if not name[:1].isdecimal()))


def _hosts_of(run: RunSnapshot) -> Iterator[str]:
    yield run.manifest.host
    yield from (rank.host for rank in run.ranks)
    yield from run.telemetry
    for noted in run.manifest.profile.values():
        if isinstance(noted, dict) and run.manifest.host in noted:
            yield from map(str, noted)


def _roots(run: RunSnapshot) -> Iterator[str]:
    """The working directory, and that of the run's ``.perftui``."""
    yield run.manifest.cwd
    if run.root.parent.parent.name == ".perftui":
        yield str(run.root.parent.parent.parent)


def _projects(directories: Iterable[str]) -> tuple[str, ...]:
    """Absolute directories, without the root and those that hold people's homes."""
    holding = ("/", *(str(above) for above in Path.home().parents), "/home", "/Users")
    return tuple(path for path in _absolute(directories) if path not in holding)


def _homes(files: Iterable[str]) -> tuple[str, ...]:
    """The home directories that ``files`` lie in, or are."""
    here = str(Path.home())
    homes = (home[0] for file in files for home in [_HOME.search(file)] if home)
    return tuple(dict.fromkeys((here, *homes))) if here.count("/") > 1 else tuple(set(homes))


def _absolute(texts: Iterable[str]) -> tuple[str, ...]:
    paths = (text.rstrip("/") for text in texts if text.startswith("/") and "\n" not in text)
    return tuple(dict.fromkeys(text for text in paths if text))


def _files(report: Report) -> Iterator[str]:
    """Files of the findings and fixes, and of the stack samples."""
    for finding in report.diagnosis.findings:
        places = (finding.place, *(figure.place for figure in finding.facts))
        yield from (place.file for place in places if place is not None and place.file)
    for fix in report.fixes:
        yield from (str(file) for file in (fix.file, fix.patch and fix.patch.path) if file)
    for rank in report.subject.run.ranks if report.subject.run else ():
        for table in (rank.stacks, rank.worker_stacks, rank.window_stacks, rank.lock_stacks):
            yield from set(table["file"].tolist()) if "file" in table and len(table) else ()


def _noted(manifest: Manifest, entry: str) -> Iterator[Any]:
    """The values of a profile entry, one for each host."""
    noted = manifest.profile.get(entry)
    yield from noted.values() if isinstance(noted, dict) else ()


def _programs(manifest: Manifest) -> Iterator[str]:
    for noted in _noted(manifest, OTHER_PROGRAMS):
        cores = noted.get("cores") if isinstance(noted, dict) else None
        yield from cores if isinstance(cores, dict) else ()


def _entries(manifest: Manifest, entry: str, name: str) -> Iterator[str]:
    """All strings of the field ``name`` in a profile entry, at any depth."""
    pending = list(_noted(manifest, entry))
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += value.values()
            if isinstance(value.get(name), str):
                yield value[name]
        elif isinstance(value, list):
            pending += value


def _seen_gpus(run: RunSnapshot) -> Iterator[str]:
    for rank in run.ranks:
        for data in notes_of(rank.events, "settings"):
            devices = data.get("devices")
            uuids = devices.get("uuids") if isinstance(devices, dict) else None
            yield from (str(uuid) for uuid in uuids or () if isinstance(uuids, list))


def _entry(name: str, noted: Any, redactor: Redactor) -> Any:
    if not isinstance(noted, dict):
        return noted
    if name not in BY_HOST:
        return map_texts(noted, redactor, redactor)
    change = _CHANGES.get(name)
    changed = ((host, change(row, redactor) if change else row) for host, row in noted.items())
    return {redactor.host(host): map_texts(row, redactor, redactor) for host, row in changed}


def _other_programs(noted: Any, redactor: Redactor) -> Any:
    """Redact the programs seen on one host."""
    if not isinstance(noted, dict) or not isinstance(noted.get("cores"), dict):
        return {}
    cores = {redactor.program(name): cores for name, cores in noted["cores"].items()}
    return {"seconds": noted.get("seconds"), "cores": cores}


def _gpu_processes(noted: Any, redactor: Redactor) -> Any:
    """Redact the processes on each GPU of one host."""
    if not isinstance(noted, dict):
        return {}
    return {
        gpu: [_gpu_process(process, redactor) for process in rows if isinstance(process, dict)]
        for gpu, rows in noted.items()
        if isinstance(rows, list)
    }


def _gpu_process(process: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    program, user = process.get("program"), process.get("user")
    return {
        "program": redactor.program(program) if isinstance(program, str) else None,
        "user": redactor.number("user", user) if isinstance(user, str) else None,
        "memory": process.get("memory"),
    }


def _gpu_devices(noted: Any, redactor: Redactor) -> Any:
    devices = [row for row in noted if isinstance(row, dict)] if isinstance(noted, list) else []
    uuids = (row.get("uuid") for row in devices)
    shown = (redactor.number("uuid", uuid) if isinstance(uuid, str) else None for uuid in uuids)
    return [{**row, "uuid": uuid} for row, uuid in zip(devices, shown, strict=True)]


_CHANGES: dict[str, Callable[[Any, Redactor], Any]] = {
    OTHER_PROGRAMS: _other_programs,
    GPU_PROCESSES: _gpu_processes,
    GPU_DEVICES: _gpu_devices,
}


def redacted(report: Report) -> Report:
    """The report with a redaction, which ``rendered`` applies. Its facts stay what they are: they
    are worked out from the files that the paths name."""
    redaction = Redaction(Redactor(known_of(report)))
    subject, run = report.subject, report.subject.run
    if run is not None:
        # All other texts are redacted where they are written.
        manifest = replace(
            run.manifest,
            host=redaction.redactor.host(run.manifest.host),
            pid=None,
            recorder_pid=None,
            recorder_created=None,
            profile={
                name: _entry(name, noted, redaction.redactor)
                for name, noted in run.manifest.profile.items()
            },
        )
        subject = replace(subject, run=replace(run, manifest=manifest))
    return replace(report, subject=subject, redaction=redaction)


def redaction_at(path: Path) -> Redaction:
    """The redaction for a report of a file that is no trace."""
    return Redaction(Redactor(_with_files(known_here(), [str(path)])))


def rendered(render: Callable[[Report], str], report: Report) -> str:
    """What ``render`` makes of the report, redacted where the report is. Raises RedactionError if
    something private would be left in it."""
    text = partial(render, report)
    return text() if report.redaction is None else report.redaction.applied(text)
