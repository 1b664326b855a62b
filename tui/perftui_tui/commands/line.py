"""The command line: options of ours first, then the script, and everything after it is its own."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perftui.format import did_you_mean
from perftui_tui.commands import table
from perftui_tui.commands.output import UsageError as UsageError
from perftui_tui.commands.output import log
from perftui_tui.commands.table import COMMANDS, COMPLETE, OPTIONS, RUN, Command, Option, owners

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

DIAGNOSE = "diagnose"
"""Before a script, module or command: it is run for its report alone."""
AGAIN = "again"
"""The action of ``diagnose RUN``."""
BEHIND = "-"
"""Stands in the words of ``compare`` for ``--``, which a parser takes for itself; behind it are the
runs of the other side."""
FORMS = ("html", "markdown", "csv", "folded", "perfetto")
"""Forms of a report besides text; ``report`` and ``diagnose`` write one."""
MISSING = {"": "no script given", "module": "-m needs a module", "command": "-- needs a command"}
"""The message if nothing is to be run, by what was asked for."""


@dataclass(frozen=True)
class CommandLine:
    """What was asked for. ``words`` are the script, module or command with its arguments, or the
    arguments of a command of ours."""

    action: str
    """``script``, ``module``, ``command``, ``AGAIN``, one of ``COMMANDS``, or ``printed``."""
    words: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()
    values: dict[str, Any] = field(default_factory=dict)
    """Values of options, as ``READERS`` read them."""
    note: str = ""
    """A note to print before beginning."""
    reports: bool = False
    """Whether a training is run for its report alone."""

    def steps(self) -> tuple[int | None, int | None]:
        """The first step of the window that was asked for, and how many it has; None if not given.
        Raises UsageError if their number is given twice."""
        window = self.values.get("window")
        first, last = self.values.get("steps", (None, None))
        if last is None:
            return first, window
        if window is not None:
            raise UsageError("--steps FIRST-LAST already sets the number of steps: drop --window")
        return first, last - first + 1


def parse(arguments: list[str]) -> CommandLine:
    """Read ``arguments``; help, the version and completions are printed at once. Raises UsageError
    if an option is unknown, foreign or lacks its value, two of them exclude each other, there are
    too many words, or nothing is to be run."""
    root = _Launcher(RUN, "perftui", COMMANDS)
    if instruction := os.environ.get(COMPLETE):
        from click.shell_completion import shell_complete

        shell_complete(root, {}, "perftui", COMPLETE, instruction)
        return CommandLine("printed")
    try:
        with root.make_context("perftui", list(arguments) or ["--help"]) as context:
            line: CommandLine = root.invoke(context)
    except click.exceptions.Exit:
        return CommandLine("printed")
    except click.ClickException as error:
        raise _our_error(error) from error
    _check(line)
    return line


FILES = {
    "attach": "show",
    "replay": "show",
    "demo": "run",
    "diagnose": "run",
    **dict.fromkeys(("try", "tune", "isolate", "compare", "apply", "undo"), "experiments"),
    **dict.fromkeys(("doctor", "probe"), "machine"),
    **dict.fromkeys(("explain", "schema", "skill", "mcp", "keys"), "reference"),
}
"""The file of this folder that a command is in, where that has another name."""


def carry_out(line: CommandLine) -> int:
    """Do what was asked for; returns the exit code."""
    if line.note:
        log(f"perftui: {line.note}")
    if line.action == "printed":
        return 0
    # Each command is a function of its name, which imports what is heavy itself.
    name = line.action if line.action in COMMANDS else "run"
    name = DIAGNOSE if line.reports else name
    module = import_module(f"perftui_tui.commands.{FILES.get(name, name)}")
    # A word of Python cannot be the name of a function.
    return int(getattr(module, "try_fix" if name == "try" else name)(line))


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_TIME = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)
_BUDGET = re.compile(r"[1-9]\d{0,4}[smh]", re.ASCII)
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)(?:([KMGT])(?:i?B)?|B)?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)%?", re.ASCII)
_STEPS = re.compile(r"([1-9]\d{0,8})(?:-([1-9]\d{0,8}))?", re.ASCII)
MOST_STACK_RATE = 100
"""A second: more would take py-spy several per cent of a core."""


def seconds_in(text: str) -> int | None:
    """``90s``, ``15m``, ``2h``, ``30d`` or ``2w`` in seconds; None for anything else."""
    match = _TIME.fullmatch(text)
    return int(match[1]) * _SECONDS[match[2]] if match else None


def bytes_in(text: str) -> int | None:
    """``500M``, ``5G``, ``1.5GiB`` or a number of bytes, in bytes; the units are powers of 1024, as
    those of ``du``. None for anything else."""
    match = _SIZE.fullmatch(text)
    return round(float(match[1]) * _UNITS[(match[2] or "").upper()]) if match else None


def share_in(text: str) -> float | None:
    """``5%`` or ``5`` as 0.05; None for anything else."""
    match = _PERCENT.fullmatch(text)
    return float(match[1]) / 100 if match else None


def _whole(least: int, most: int = 10**18) -> Callable[[str], int | None]:
    return lambda text: int(text) if text.isdecimal() and least <= int(text) <= most else None


def _ending(*endings: str) -> Callable[[str], Path | None]:
    """A file to write: it never takes the place of a trace or a script."""
    return lambda text: Path(text) if text.lower().endswith(endings) else None


def _first_and_last(text: str) -> tuple[int, int | None] | None:
    match = _STEPS.fullmatch(text)
    first, last = (int(match[1]), int(match[2] or 0)) if match else (0, 0)
    return (first, last or None) if first and (not last or last >= first) else None


READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    **dict.fromkeys(("runs", "ncu", "path", "junit"), (Path, "")),
    **dict.fromkeys(
        ("window", "max-steps", "top", "keep"), (_whole(1), "needs a whole number above 0")
    ),
    "stack-rate": (_whole(0, MOST_STACK_RATE), f"needs a whole number from 0 to {MOST_STACK_RATE}"),
    "rank": (_whole(0, 10**9 - 1), "needs a whole number"),
    "steps": (_first_and_last, "needs a step or two, such as 100 or 100-104"),
    "overhead": (
        lambda text: share if 0 < (share := share_in(text) or 0.0) <= 1 else None,
        "needs per cent of the run, such as 0.5%",
    ),
    "budget": (
        lambda text: seconds_in(text) if _BUDGET.fullmatch(text) else None,
        "needs a time such as 90s, 15m or 2h",
    ),
    "max-regression": (share_in, "needs per cent of the step, such as 5%"),
    "older-than": (seconds_in, "needs a time such as 12h, 30d or 8w"),
    "max-size": (bytes_in, "needs a size such as 500M or 5G"),
    "html": (_ending(".html", ".htm"), "needs a file to write that ends in .html"),
    "perfetto": (_ending(".json", ".json.gz"), "writes a file that ends in .json or .json.gz"),
}
"""By option, what reads its value (None for an invalid one) and what it needs; the text of other
options is kept."""


class _Value(click.ParamType[Any]):
    """The value of an option, read and checked."""

    name = "value"

    def __init__(self, option: Option) -> None:
        self.option = option

    @property
    def words(self) -> tuple[str, ...]:
        """The allowed values, if they are a few."""
        if self.option.name == "csv":
            from perftui.report.csv_tables import TABLES

            return tuple(TABLES)
        if self.option.name == "scenario":
            from perftui_tui.demo import trainings

            return tuple(trainings())
        return self.option.words

    def convert(self, value: str, *_: object) -> Any:
        """The value as the commands take it."""
        name = self.option.name
        if not value:
            raise UsageError(f"--{name} needs a value")
        if self.words and value not in self.words:
            words = ", ".join(self.words)
            near = did_you_mean(value, self.words) or f" There are {words}."
            if name in ("csv", "scenario", "theme"):
                noun = "table" if name == "csv" else name
                raise UsageError(f"there is no {noun} {value!r}.{near}")
            raise UsageError(f"--{name} needs one of {words}, not {value!r}")
        read, needs = READERS.get(name, (str, ""))
        result = read(value)
        if result is None:
            raise UsageError(f"--{name} {needs}, not {value!r}")
        return result

    def shell_complete(
        self, _: click.Context, __: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The allowed values, or files."""
        from click.shell_completion import CompletionItem

        if self.words:
            return [CompletionItem(word) for word in self.words if word.startswith(incomplete)]
        is_place = self.option.value in ("FILE", "DIR", "PATH", "DATA", "BASE")
        return [CompletionItem(incomplete, type="file")] if is_place else []


def _parameter(name: str, *, hidden: bool = False) -> click.Option:
    option = OPTIONS[name]
    kind: Any = {"type": _Value(option)} if option.value else {"is_flag": True}
    names = [f"--{name}", name.replace("-", "_")]
    return click.Option(names, help=option.about, hidden=hidden, **kind)


class _Words(click.Argument):
    """The words after the name of a command that are no options of it."""

    def __init__(self) -> None:
        super().__init__(["words"], nargs=-1, type=click.UNPROCESSED)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of runs and what else a command can be about, or files."""
        from click.shell_completion import CompletionItem

        from perftui.run.layout import RUNS_DIRECTORY

        command = str(ctx.info_name)
        choices: list[str] = []
        if command == "explain":
            from perftui.report.explain import names

            choices = list(names())
        elif command == "schema":
            from perftui.report.schema import OUTPUTS

            choices = list(OUTPUTS)
        elif command in COMMANDS or command == AGAIN:
            choices = sorted((path.name for path in Path(RUNS_DIRECTORY).glob("*/")), reverse=True)
        if command in ("try", "apply"):
            from perftui.fixes.catalogue import CATALOGUE

            choices = [*CATALOGUE, *choices]
        items = [CompletionItem(name) for name in choices if name.startswith(incomplete)]
        return items or [CompletionItem(incomplete, type="file")]


class _Leaf(click.Command):
    """A command with its own options, before or after its words."""

    def __init__(self, own: Command) -> None:
        super().__init__(
            own.name,
            {"help_option_names": ["-h", "--help"]},
            params=[*map(_parameter, own.options), _Words()],
            callback=_line,
        )
        self.own = own

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As usual; two dashes of ``compare`` are a word."""
        if self.own.name == "compare":
            args = [BEHIND if word == "--" else word for word in args]
        return super().parse_args(ctx, args)

    def get_help(self, ctx: click.Context) -> str:  # noqa: ARG002 - as the parser calls it
        """The command's own help."""
        return table.of_command(self.own)


class _Launcher(click.Group):
    """Options of ours, and then what is run with its own: ``perftui`` itself and ``diagnose``.

    ``perftui`` takes the options of all commands, which may come before their name."""

    def __init__(self, own: Command, name: str, inner: dict[str, Command]) -> None:
        options = OPTIONS if own is RUN else own.options
        parameters: list[click.Parameter] = [
            *(_parameter(option, hidden=option not in own.options) for option in options),
            click.Option(["-m", "module"], is_flag=True, hidden=True),
        ]
        if own is RUN:
            version = click.Option(
                ["-V", "--version", "version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_version,
            )
            parameters.append(version)
        super().__init__(
            name,
            params=parameters,
            callback=_nothing,
            invoke_without_command=True,
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        self.own, self.inner = own, inner

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As usual; what was typed is kept, because two dashes are dropped."""
        ctx.obj = list(args)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word that is no option asks for."""
        word, typed = args[0], ctx.obj
        if typed[: len(typed) - len(args)][-1:] == ["--"]:
            action = "command"
        elif ctx.params["module"]:
            action = "module"
        elif self.own is not RUN and Path(word).is_dir():
            return AGAIN, _Leaf(self.own), args
        elif word in self.inner:
            command = self.inner[word]
            inner = _Launcher(command, word, {}) if word == DIAGNOSE else _Leaf(command)
            return word, inner, args[1:]
        elif _opens(word):
            # Nothing is run: it is looked at, or reported.
            shown = "replay" if self.own is RUN else "report"
            return shown, _Leaf(COMMANDS[shown]), args
        else:
            action = "script"
        return action, _Leaf(RUN._replace(options=())), ["--", *args]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands and files; a shell alone knows how to go on in a directory."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        items = [
            CompletionItem(command.name, help=command.about)
            for command in self.inner.values()
            if command.name.startswith(incomplete)
        ]
        if not items:
            return [CompletionItem(incomplete, type="file")]
        files = (path for path in Path().glob(f"{incomplete}*") if path.is_file())
        return items + [CompletionItem(path.name) for path in sorted(files)]

    def get_help(self, ctx: click.Context) -> str:  # noqa: ARG002 - as the parser calls it
        """All commands, or those of ``diagnose``."""
        return table.overview() if self.own is RUN else table.of_command(self.own)


def _version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from perftui import __version__

        click.echo(f"perftui {__version__}")
        context.exit()


@click.pass_context
def _nothing(context: click.Context, /, **_: object) -> None:
    """If nothing is named, say what is missing."""
    if context.invoked_subcommand is not None:
        return
    missing = "command" if context.obj[-1:] == ["--"] else ""
    missing = "module" if context.params["module"] else missing
    raise UsageError(f"{MISSING[missing]}; see perftui --help")


@click.pass_context
def _line(context: click.Context, /, **_: object) -> CommandLine:
    """All that was typed, from ``perftui`` to the last word."""
    contexts = [context]
    while contexts[0].parent is not None:
        contexts.insert(0, contexts[0].parent)
    options = {
        name.replace("_", "-"): value
        for ctx in contexts
        for name, value in ctx.params.items()
        if name not in ("words", "module") and value is not None and value is not False
    }
    action, words = str(context.info_name), tuple(context.params["words"])
    reports = contexts[1].info_name == DIAGNOSE and action != "report"
    command = COMMANDS[DIAGNOSE] if reports else COMMANDS.get(action, RUN)
    for name in options:
        if name not in command.options:
            raise UsageError(_foreign(name, command))
    is_ours = action in COMMANDS or action == AGAIN
    if is_ours and len(words) > command.most:
        raise UsageError(f"unexpected {words[command.most]!r}; {table.usage(command)}")
    as_file = f"running the command {action}; to run the file of that name, type ./{action}"
    is_both = is_ours and action in contexts[0].obj and Path(action).exists()
    return CommandLine(
        action,
        words,
        frozenset(name for name, value in options.items() if value is True),
        {name: value for name, value in options.items() if value is not True},
        as_file if is_both else "",
        reports,
    )


def _check(line: CommandLine) -> None:
    forms = [form for form in FORMS if form in line.flags or form in line.values]
    if not forms:
        return
    form, others = forms[0], [f"--{form}" for form in forms[1:]]
    if line.flags & {"json", "brief"}:
        others = ["--json and --brief"]
    if others:
        raise UsageError(f"--{form} is a form of its own: drop {others[0]}")
    # Markdown ignores such options; the other forms would leave out what they name.
    unused = {"markdown": (), "html": ("ncu",), "csv": ("ncu",)}.get(form, ("ncu", "top"))
    for name in unused:
        if name in line.values:
            raise UsageError(f"--{form} makes no use of --{name}: drop it")


def _our_error(error: click.ClickException) -> UsageError:
    """The error of an option in our words."""
    context = getattr(error, "ctx", None)
    command = getattr(context and context.command, "own", RUN)
    if isinstance(error, click.NoSuchOption):
        name = error.option_name.lstrip("-")
        if name in OPTIONS:
            return UsageError(_foreign(name, command))
        near = [f"--{option}" for option in (*command.options, "help")]
        hint = did_you_mean(f"--{name}", near) or did_you_mean(
            f"--{name}", [f"--{option}" for option in (*OPTIONS, "version")]
        )
        return UsageError(f"unknown option {error.option_name}.{hint} See {_help_of(command)}")
    if isinstance(error, click.BadOptionUsage):
        name = error.option_name.lstrip("-")
        is_flag = name in OPTIONS and not OPTIONS[name].value
        return UsageError(f"--{name} takes no value" if is_flag else f"--{name} needs a value")
    return UsageError(error.format_message())


def _foreign(name: str, own: Command) -> str:
    *names, last = owners(name)
    takers = f"{', '.join(names)} and {last}" if names else last
    to = "" if own is RUN else f", not to {own.name}"
    return f"--{name} belongs to {takers}{to}; see {_help_of(own)}"


def _help_of(own: Command) -> str:
    return f"perftui {own.name} --help" if own.name in COMMANDS else "perftui --help"


def _opens(word: str) -> bool:
    """Whether ``word`` is a run or a trace, which is shown; anything else is run."""
    path = Path(word)
    if path.suffix == ".py" and path.is_file():
        return False
    # A script starts without the imports that only traces need.
    from perftui.trace.formats import ENDINGS
    from perftui.trace.remote import is_url

    if is_url(word) or path.is_dir() or word.lower().endswith(ENDINGS):
        return True
    from perftui.report.kind import kind_of

    try:
        return path.is_file() and kind_of(path) is not None
    except OSError:
        # Whatever runs the script reports why it cannot be read.
        return False
