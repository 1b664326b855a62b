"""The command line: options of ours first, then the script, and everything after it is its own."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from perftui.trace.formats import ENDINGS
from perftui.trace.remote import is_url
from perftui_tui.commands.quantities import bytes_in, seconds_in, share_in

COMMANDS = (
    *("replay", "attach", "report", "runs", "demo", "keys", "explain"),
    *("try", "tune", "isolate", "apply", "undo", "compare", "schema", "skill"),
    *("doctor", "probe", "check", "mcp"),
)
DIAGNOSE = "diagnose"
"""Before a script, module or command: it is run for its report alone."""
AGAIN = "again"
"""The action of ``diagnose RUN``."""
FLAGS = (
    "headless",
    "nvtx",
    "no-profile",
    "stacks",
    "shapes",
    "memory",
    "modules",
    "memory-snapshot",
    "nsys",
    "syncs",
    "ascii",
    "json",
    "brief",
    "markdown",
    "folded",
    "redact",
    "trust",
    "dry-run",
    "prune",
    "github",
    "allow-run",
    "no-repeats",
)
BEHIND = "--"
"""In ``compare``: behind it are the runs of the other side."""
VALUES = (
    "python",
    "runs",
    "window",
    "steps",
    "overhead",
    "max-steps",
    "theme",
    "rank",
    "top",
    "ncu",
    "stack-rate",
    "budget",
    "path",
    "scheduler",
    *("against", "max-regression", "fail-on", "inconclusive", "junit"),
    *("older-than", "keep", "max-size"),
    *("html", "csv", "perfetto"),
)
FORMS = ("html", "markdown", "csv", "folded", "perfetto")
"""What a report is written as in place of text; ``report`` and ``diagnose`` write one."""
NUMBERS = ("window", "max-steps", "top", "keep")
WORDS = {
    "theme": ("dark", "light", "contrast", "ansi"),
    "fail-on": ("critical", "warning", "info", "none"),
    "inconclusive": ("pass", "fail"),
}
"""Options that take one of a few words."""
MOST_STACK_RATE = 100
"""A second: more would take py-spy several per cent of a core."""
PAGES = (".html", ".htm")
"""Endings of the file that ``--html`` names: it never takes the place of a trace or a script."""
_RANK = re.compile(r"\d{1,9}", re.ASCII)
_STEPS = re.compile(r"([1-9]\d{0,8})(?:-([1-9]\d{0,8}))?", re.ASCII)
_BUDGET = re.compile(r"[1-9]\d{0,4}[smh]", re.ASCII)
MISSING = {
    "": "no script given",
    "module": "-m needs a module",
    "command": "-- needs a command",
}
"""The message where nothing is to be run, by what was asked for."""
PERFETTO_ENDINGS = (".json", ".json.gz")


class UsageError(Exception):
    """The command cannot be carried out; the message has the reason and what to do. Exit code 2."""


@dataclass(frozen=True)
class CommandLine:
    """What was asked for. ``words`` are the script, module or command with its arguments, or the
    arguments of a command of ours."""

    action: str
    """``script``, ``module``, ``command``, ``AGAIN``, one of ``COMMANDS``, ``help`` or
    ``version``."""
    words: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()
    values: dict[str, str] = field(default_factory=dict)
    note: str = ""
    """A note to print before beginning."""
    reports: bool = False
    """Whether a training is run for its report alone."""

    def number(self, name: str) -> int | None:
        """The value of a numeric option, None where it is not given."""
        return int(self.values[name]) if name in self.values else None

    def steps(self) -> tuple[int | None, int | None]:
        """The first step of the window that was asked for, and how many it has; None if not given.

        Raises:
            UsageError: their number is given twice.
        """
        if "steps" not in self.values:
            return None, self.number("window")
        first, last = _first_and_last(self.values["steps"])
        if last is None:
            return first, self.number("window")
        if "window" in self.values:
            raise UsageError("--steps FIRST-LAST already sets the number of steps: drop --window")
        return first, last - first + 1

    def seconds(self, name: str) -> float:
        """The value of an option that is a time, without end where it is not given."""
        found = seconds_in(self.values.get(name, ""))
        return float("inf") if found is None else found

    def share(self, name: str) -> float | None:
        """The value of an option in per cent as a share, None where it is not given."""
        return share_in(self.values[name]) if name in self.values else None


def parse(arguments: list[str]) -> CommandLine:
    """Read ``arguments``.

    Commands of ours take their options after their name too, since nothing of theirs can be a
    script's.

    Raises:
        UsageError: an option is unknown or lacks its value, two of them exclude each other, or
            nothing is to be run.
    """
    flags: set[str] = set()
    values: dict[str, str] = {}
    words: list[str] = []
    line = CommandLine("")
    reports = arguments[:1] == [DIAGNOSE]
    rest = iter(arguments[reports:])
    for word in rest:
        if word in ("-h", "--help"):
            return CommandLine("help")
        if word == BEHIND and line.action == "compare":
            words.append(word)
        elif word.startswith("-") and word != "-":
            if line.action or word not in ("-m", "--", "-V", "--version"):
                _option(word, rest, flags, values)
                continue
            if word in ("-V", "--version"):
                return CommandLine("version")
            line = CommandLine("module" if word == "-m" else "command")
        elif not line.action:
            line = _diagnosed(word) if reports else _target(word)
            words += line.words
        else:
            words.append(word)
        if line.action not in (*COMMANDS, AGAIN):
            words += rest
    if not arguments:
        return CommandLine("help")
    whole = replace(
        line, words=tuple(words), flags=frozenset(flags), values=values, reports=reports
    )
    _check(whole)
    return whole


def _check(line: CommandLine) -> None:
    if not line.words and line.action in MISSING:
        raise UsageError(f"{MISSING[line.action]}; see perftui --help")
    if "redact" in line.flags and line.action != "report" and not line.reports:
        raise UsageError("--redact belongs to report and diagnose")
    forms = [form for form in FORMS if form in line.flags or form in line.values]
    if not forms:
        return
    if line.flags & {"json", "brief"}:
        raise UsageError(f"--{forms[0]} is a form of its own: drop --json and --brief")
    if len(forms) > 1:
        raise UsageError(f"--{forms[0]} is a form of its own: drop --{forms[1]}")
    _check_form(forms[0], line)


def _check_form(form: str, line: CommandLine) -> None:
    """Markdown is passed over where it means nothing; the others would leave out what they name."""
    if form == "markdown":
        return
    if line.action != "report" and not line.reports:
        raise UsageError(f"--{form} belongs to report and diagnose")
    unused = [name for name in ("ncu", "top") if name in line.values]
    if form in ("html", "csv"):
        unused = [name for name in unused if name != "top"]
    if unused:
        raise UsageError(f"--{form} makes no use of --{unused[0]}: drop it")


def _option(word: str, rest: Iterator[str], flags: set[str], values: dict[str, str]) -> None:
    name, equals, value = word.removeprefix("--").partition("=")
    if not word.startswith("--") or name not in (*FLAGS, *VALUES):
        raise UsageError(f"unknown option {word}{_suggestion(name)}; see perftui --help")
    if name in FLAGS:
        if equals:
            raise UsageError(f"--{name} takes no value")
        flags.add(name)
        return
    if not equals:
        value = next(rest, "")
    values[name] = _checked(name, value)


def _checked(name: str, value: str) -> str:
    if not value:
        raise UsageError(f"--{name} needs a value")
    if name in NUMBERS and (not value.isdecimal() or int(value) == 0):
        raise UsageError(f"--{name} needs a whole number above 0, not {value!r}")
    if name == "stack-rate" and not (value.isdecimal() and int(value) <= MOST_STACK_RATE):
        raise UsageError(
            f"--stack-rate needs a whole number from 0 to {MOST_STACK_RATE}, not {value!r}"
        )
    if name == "steps":
        _first_and_last(value)
    if name == "overhead" and not 0 < (share_in(value) or 0) <= 1:
        raise UsageError(f"--overhead needs per cent of the run, such as 0.5%, not {value!r}")
    if name == "budget" and not _BUDGET.fullmatch(value):
        raise UsageError(f"--budget needs a time such as 90s, 15m or 2h, not {value!r}")
    if name == "rank" and not _RANK.fullmatch(value):
        raise UsageError(f"--rank needs a whole number, not {value!r}")
    _check_limit(name, value)
    _check_value_of_form(name, value)
    if name == "theme" and value not in WORDS[name]:
        raise UsageError(f"there is no theme {value!r}; there are {', '.join(WORDS[name])}")
    if name in WORDS and value not in WORDS[name]:
        raise UsageError(f"--{name} needs one of {', '.join(WORDS[name])}, not {value!r}")
    return value


def _check_limit(name: str, value: str) -> None:
    if name == "max-regression" and share_in(value) is None:
        raise UsageError(f"--{name} needs per cent of the step, such as 5%, not {value!r}")
    if name == "older-than" and seconds_in(value) is None:
        raise UsageError(f"--{name} needs a time such as 12h, 30d or 8w, not {value!r}")
    if name == "max-size" and bytes_in(value) is None:
        raise UsageError(f"--{name} needs a size such as 500M or 5G, not {value!r}")


def _check_value_of_form(form: str, value: str) -> None:
    if form == "html" and not value.lower().endswith(PAGES):
        raise UsageError(f"--html needs a file to write that ends in .html, not {value!r}")
    if form == "perfetto" and not value.lower().endswith(PERFETTO_ENDINGS):
        raise UsageError(f"--perfetto writes a file that ends in .json or .json.gz, not {value!r}")
    if form == "csv":
        from perftui.report.csv_tables import TABLES

        if value not in TABLES:
            raise UsageError(f"there is no table {value!r}; there are {', '.join(TABLES)}")


def _first_and_last(value: str) -> tuple[int, int | None]:
    found = _STEPS.fullmatch(value)
    first, last = (int(found[1]), found[2] and int(found[2])) if found else (0, None)
    if not first or (last and last < first):
        raise UsageError(f"--steps needs a step or two, such as 100 or 100-104, not {value!r}")
    return first, last or None


def _suggestion(name: str) -> str:
    near = difflib.get_close_matches(name.lstrip("-"), (*FLAGS, *VALUES, "help", "version"), 1, 0.6)
    return f", did you mean --{near[0]}?" if near else ""


def _diagnosed(word: str) -> CommandLine:
    """A script, or where a directory is named the run in it, which is repeated."""
    return CommandLine(AGAIN if Path(word).is_dir() else "script", (word,))


def _target(word: str) -> CommandLine:
    """What the first word that is no option asks for."""
    path = Path(word)
    if word in COMMANDS:
        note = f"running the command {word}; to run the file of that name, type ./{word}"
        return CommandLine(word, note=note if path.exists() else "")
    if is_url(word) or path.is_dir() or word.lower().endswith(ENDINGS) or _has_report(path):
        return CommandLine("replay", (word,))
    return CommandLine("script", (word,))


def _has_report(path: Path) -> bool:
    """Whether the file is no script but something that can be reported on."""
    if path.suffix == ".py" or not path.is_file():
        return False
    from perftui.report.kind import kind_of

    try:
        return kind_of(path) is not None
    except OSError:
        # What runs the script reports why it cannot be read.
        return False
