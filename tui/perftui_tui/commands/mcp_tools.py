"""The tools that clients see, and how the words of a command line are made from their arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from msgspec import Meta

from perftui.report.as_json import BriefReport
from perftui.report.check.forms import CheckOutput
from perftui.report.comparison import BriefComparison, ComparisonOutput
from perftui.report.csv_tables import TABLES
from perftui.report.explain import ExplainOutput
from perftui.report.findings_as_json import ApplyOutput, UndoOutput
from perftui.report.output_text import Schema
from perftui.report.recorded import RunsOutput
from perftui.report.schema import schema_for
from perftui.report.trial import BriefTrial, TrialOutput
from perftui_tui.commands.table import OPTIONS

KINDS: dict[type, tuple[str, str]] = {
    str: ("string", "a text"),
    int: ("integer", "a whole number"),
    bool: ("boolean", "true or false"),
    list: ("array", "a list of words"),
}
"""By kind of an argument: its name in JSON Schema, and for a person."""


class ArgumentError(ValueError):
    """A tool was called with what it does not take; the message says what it does take."""


@dataclass(frozen=True)
class Argument:
    """One argument of a tool."""

    name: str
    about: str
    kind: type = str
    option: str = ""
    """The option of the command line that it sets; where there is none it is a word of it."""
    is_required: bool = False
    choices: tuple[str, ...] = ()
    is_ours: bool = False
    """Whether it is for the server, and no part of the command line."""

    @property
    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        schema: dict[str, Any] = {"type": KINDS[self.kind][0], "description": self.about}
        choices = {"enum": list(self.choices)} if self.choices else {}
        if self.kind is list:
            return {**schema, "items": {"type": "string", **choices}}
        return {**schema, **choices}

    def checked(self, value: object) -> None:
        """See that ``value`` is of this kind. Raises ArgumentError if it is not."""
        words = value if isinstance(value, list) else []
        # Whether a number is one, the command line decides.
        fits = self.kind is int or isinstance(value, self.kind)
        if not fits or not all(isinstance(word, str) for word in words):
            raise ArgumentError(f"{self.name} is {KINDS[self.kind][1]}, not {value!r}")
        for word in words:
            if self.choices and word not in self.choices:
                choices = ", ".join(self.choices)
                raise ArgumentError(f"{self.name} has no {word!r}; there are {choices}")

    def words(self, value: Any) -> list[str]:
        """The words of the command line for ``value``; none is taken for an option by mistake.
        Raises ArgumentError if it would."""
        words = list(value) if self.kind is list else [value]
        if self.option:
            return [f"--{w}" if self.kind is list else f"--{self.option}={w}" for w in words]
        if not words or not words[0]:
            raise ArgumentError(f"{self.name} is empty")
        if words[0].startswith("-") and not (self.kind is list and words[0] in ("-m", "--")):
            raise ArgumentError(
                f"{self.name} begins with -: of a file {words[0]}, write ./{words[0]}"
            )
        return words


def command_line(
    command: Sequence[str], arguments: Sequence[Argument], values: Mapping[str, Any]
) -> list[str]:
    """The words of the command line: ``command``, then options, then what else was given. Raises
    ArgumentError if an argument is unknown, missing, or of another kind."""
    by_name = {argument.name: argument for argument in arguments}
    for name in values:
        if name not in by_name:
            raise ArgumentError(f"there is no argument {name!r}; there are {', '.join(by_name)}")
    options: list[str] = []
    words: list[str] = []
    for argument in arguments:
        value = values.get(argument.name)
        if value is not None:
            argument.checked(value)
            if not argument.is_ours:
                (options if argument.option else words).extend(argument.words(value))
        elif argument.is_required:
            raise ArgumentError(f"{argument.name} is missing: {argument.about}")
    return [*command, *options, *words]


def whole_number(values: Mapping[str, Any], name: str, least: int, usual: int) -> int:
    """The number that was given as ``name``, or the usual one. Raises ArgumentError if it is no
    whole number from ``least`` on."""
    value = values.get(name)
    if value is None:
        return usual
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ArgumentError(f"{name} needs a whole number from {least} on, not {value!r}")
    return value


ROWS = 10
"""Items in each table of an answer, where no other number is asked for."""


class TableOutput(TypedDict):
    """A table as `perftui report --csv` prints it, or a part of it."""

    schema: Schema
    table: str
    csv: Annotated[str, Meta(description="Heading with units, and rows; an empty cell is unknown.")]
    skip: Annotated[int, Meta(description="Rows before the first one here.")]
    total_rows: Annotated[int, Meta(description="Rows of the whole table.")]
    note: Annotated[str | None, Meta(description="Why there are no rows, or not all.")]


@dataclass(frozen=True)
class Tool:
    """A tool, and the command line that answers it."""

    name: str
    command: tuple[str, ...]
    about: str
    arguments: tuple[Argument, ...]
    outputs: tuple[type, ...]
    """The types that its answer may have."""
    full: str = ""
    """The name of the schema that its answer has with ``full``, where that is too large to list."""
    is_run: bool = False
    """Whether it runs a training or changes files: offered with ``--allow-run`` only."""
    executes: bool = False
    """Whether it executes the training script, which may do anything."""
    is_idempotent: bool = False
    """Whether a second call with the same arguments changes nothing."""

    @property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of its arguments."""
        return {
            "type": "object",
            "properties": {argument.name: argument.schema for argument in self.arguments},
            "required": [argument.name for argument in self.arguments if argument.is_required],
            "additionalProperties": False,
        }

    @property
    def output_schema(self) -> dict[str, Any]:
        """JSON Schema of its answer; an object, as clients require."""
        schema = schema_for(self.outputs, f"perftui {self.name}")
        if self.full:
            larger = {
                "type": "object",
                "description": f"With full: what `perftui schema {self.full}` prints.",
            }
            alone = {"$ref": schema.pop("$ref")} if "$ref" in schema else {}
            schema["anyOf"] = [*schema.get("anyOf", [alone]), larger]
        return {**schema, "type": "object"}


_PATH = Argument(
    "path",
    "A run's id, the directory of a run or a project, a trace (.json, .json.gz, .sqlite), or a "
    "directory of traces. Default: the newest run.",
)
_RUN = Argument("path", "A run's id or directory. Default: the newest run.")
_FIX = Argument("fix", "Name of the fix, such as loader-workers. Default: the best one.")
FULL = Argument(
    "full", "All details, tables cut to rows, in place of at most 2,000 bytes.", bool, is_ours=True
)
_ROWS = Argument("rows", f"The most items in each table (default {ROWS}).", int, is_ours=True)


def _of_option(name: str, about: str, *, is_required: bool = False) -> Argument:
    option = OPTIONS[name]
    kind = int if option.value == "N" else str
    words = tuple(TABLES) if name == "csv" else option.words
    shown = "table" if name == "csv" else name.replace("-", "_")
    return Argument(shown, about, kind, name, is_required, words)


_RANK = _of_option("rank", "The rank to show, of several.")
_MAX_STEPS = _of_option("max-steps", "End the training after so many steps.")

READING = (
    Tool(
        "runs",
        ("runs", "--json"),
        "List the recorded runs, newest first.",
        (Argument("path", "A directory of runs or of a project. Default: this project."), _ROWS),
        (RunsOutput,),
    ),
    Tool(
        "report",
        ("report", "--json"),
        "Say why a recorded training is slow: the verdict, the costliest findings with place, cost "
        "and fix, and the command to run next. Memory snapshots and CSV of Nsight Compute need "
        "full.",
        (_PATH, _RANK, FULL, _ROWS),
        (BriefReport,),
        full="report",
    ),
    Tool(
        "table",
        ("report",),
        "Rows of one table of a run or trace, as CSV: operators, kernels and modules by time, "
        "gaps of a device by length, steps in order, findings by cost.",
        (
            _of_option("csv", "Which table.", is_required=True),
            _PATH,
            _RANK,
            _ROWS,
            Argument("skip", "Leave out so many rows first.", int, is_ours=True),
        ),
        (TableOutput,),
    ),
    Tool(
        "explain",
        ("explain", "--json"),
        "Explain a finding or a fix: what it means, where its limits come from, what it changes.",
        (Argument("name", "Name of a finding's rule or of a fix.", is_required=True),),
        (ExplainOutput,),
    ),
    Tool(
        "diff",
        ("apply", "--dry-run", "--json"),
        "Show the diff that apply would write for a fix. Nothing is written.",
        (_FIX, _RUN),
        (ApplyOutput,),
    ),
    Tool(
        "compare",
        ("compare", "--json"),
        "Compare two runs or traces: which is faster, by how much, and what limits the comparison.",
        (
            Argument("before", "A run or a trace, as path of report.", is_required=True),
            Argument("after", "The other.", is_required=True),
            FULL,
            _ROWS,
        ),
        (BriefComparison, ComparisonOutput),
    ),
    Tool(
        "check",
        ("check", "--json"),
        "Hold a run or trace against limits, as a build does: severity of findings, and with a "
        "baseline the step time.",
        (
            _PATH,
            _of_option("against", "The baseline: a run, a trace, newest, or history."),
            _of_option("fail-on", "The least severity that fails (default critical)."),
            _of_option("max-regression", "How much slower a step may be, such as 5%."),
            _of_option("inconclusive", "Whether an uncertain check passes (default) or fails."),
            _ROWS,
        ),
        (CheckOutput,),
    ),
)

RECORDED = ("shapes", "stacks", "memory", "modules", "memory-snapshot", "syncs", "nsys")
"""Options of a recording that clients may name; `perftui --help` describes them."""

RUNNING = (
    Tool(
        "diagnose",
        ("diagnose", "--json"),
        "Run a training under perftui to its end, then report as report does. Executes the script. "
        "exit_code is the script's; its output is in output.log of the run directory.",
        (
            Argument(
                "command",
                "SCRIPT ARGS..., or -m MODULE ARGS..., or -- COMMAND ARGS... (such as torchrun), "
                "or the directory of a run, to run its training again; one word per item.",
                list,
                is_required=True,
            ),
            Argument("directory", "Where it runs. Default: where the server runs.", is_ours=True),
            _MAX_STEPS,
            _of_option("window", "Steps in each profiled window."),
            Argument("record", "What else to record in windows.", list, "record", choices=RECORDED),
            _of_option("python", "Interpreter of the script."),
            FULL,
            _ROWS,
        ),
        (BriefReport,),
        full="diagnose",
        is_run=True,
        executes=True,
    ),
    Tool(
        "try",
        ("try", "--json"),
        "Measure what a fix gains: the training of a run is repeated 13 to 29 times, with the fix "
        "and without (2 to 5 times for a switch of torch). Takes minutes; the source is not "
        "changed, and files that the training writes are restored. Cancel it to stop the training.",
        (_FIX, _RUN, _MAX_STEPS, FULL, _ROWS),
        (BriefTrial, TrialOutput),
        is_run=True,
        executes=True,
    ),
    Tool(
        "apply",
        ("apply", "--json"),
        "Write a fix to the source of the training. undo undoes it.",
        (_FIX, _RUN),
        (ApplyOutput,),
        is_run=True,
        is_idempotent=True,
    ),
    Tool(
        "undo",
        ("undo", "--json"),
        "Undo the last fix that apply wrote, byte for byte.",
        (_RUN,),
        (UndoOutput,),
        is_run=True,
    ),
)


def offered(*, allow_run: bool) -> tuple[Tool, ...]:
    """The tools of a server."""
    return READING + (RUNNING if allow_run else ())
