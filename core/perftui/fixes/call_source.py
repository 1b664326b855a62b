"""Where a call of the training can be changed: in the source, or by an option of the script."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perftui.facts.fact import Facts
from perftui.fixes.command_option import CommandOption
from perftui.fixes.launched_script import script_of
from perftui.fixes.model import Patch, Risk
from perftui.fixes.source.calls import CallSpec, argument, call_at
from perftui.fixes.source.edits import RemoveKeyword
from perftui.fixes.source.patching import call_patch
from perftui.run.manifest import Manifest
from perftui.script.options import DeclaredOption, declared_options, option_behind
from perftui.script.program import (
    Literal,
    PatchRefusedError,
    Program,
    parse_program,
    read_source,
)

_INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Where pip and Debian's packages install; ``sysconfig`` knows only this interpreter's."""


@dataclass(frozen=True)
class CallChange:
    """A call of the training that is to be made with other arguments."""

    target: str
    """What the agent calls it: ``DataLoader``, ``optimizer``."""
    arguments: Mapping[str, Literal]
    title: str
    """What will change, in a few words: ``num_workers 0 -> 2``."""
    file: str | None
    line: int | None
    spec: CallSpec
    advice: str
    """The line as it would be written."""
    written: Mapping[str, Literal] = field(default_factory=dict)
    """The arguments as the source names them, where overrides name them otherwise."""
    seen: Mapping[str, Literal] = field(default_factory=dict)
    """What the script called it with, as far as that is known."""
    risks: tuple[Risk, ...] = ()
    why_not: str = ""
    """Why it would be wrong or useless here; then neither tried nor written."""
    uncertain: str = ""
    """Why the source must not be changed, though a run may try it."""
    others: tuple[str, ...] = ()
    """``file:line`` of other calls that the same fix is about, which stay as they are."""

    def notes(self, patch: Patch | None) -> tuple[str, ...]:
        """What else changes and what is left to be done, for a person: of ``patch``, and of the
        other calls that it does not reach."""
        sentences = patch.notes if patch else ()
        short = (f"{Path(file).name}:{line}" for file, _, line in map(_parted, self.others))
        said = " ".join(sentences)
        left = [name for name in short if not re.search(rf"{re.escape(name)}\b", said)]
        if not left:
            return sentences
        noun = f"{self.spec.noun}s" if len(left) > 1 else f"{self.spec.noun}"
        made = f"The {noun} made at {' and '.join(left)} {'feed' if len(left) > 1 else 'feeds'}"
        stays = "stay unchanged" if len(left) > 1 else "stays unchanged"
        return (*sentences, f"{made} the training, too, and {stays}: this is half of the fix.")

    @property
    def as_written(self) -> Mapping[str, Literal]:
        """The arguments as the source names them."""
        return self.written or self.arguments


@dataclass(frozen=True)
class SourceChange:
    """What can be written: a patch, a command, both, or neither and the reason."""

    patch: Patch | None = None
    argv: tuple[str, ...] | None = None
    why_not: str = ""
    """Why there is no patch."""


def _parted(place: str) -> tuple[str, str, str]:
    return place.rpartition(":")


def source_change(change: CallChange, facts: Facts) -> SourceChange:
    """How the call can be given its arguments; reads the source files.

    Where the command already gives the option that decides, the source's default would change
    nothing, so only the command is offered.
    """
    noun = change.spec.noun
    if change.uncertain:
        return SourceChange(why_not=change.uncertain)
    if change.file is None or change.line is None:
        return SourceChange(why_not=f"the run does not record where the {noun} is created")
    path = Path(change.file)
    if why := why_not_edited(path, f"the {noun} is created", facts.manifest):
        return SourceChange(why_not=why)
    argv, already = _command(path, change.line, change, facts.manifest)
    if already:
        return SourceChange(argv=argv, why_not=already)
    # What an override stood in for in this run is not known.
    overrides = facts.manifest.overrides if facts.manifest else ()
    changed = {name for override in overrides for name in override.arguments}
    seen = {name: value for name, value in change.seen.items() if name not in changed}
    try:
        return SourceChange(
            call_patch(path, change.line, change.spec, change.as_written, seen), argv
        )
    except PatchRefusedError as refusal:
        return SourceChange(None, argv, str(refusal))


def why_not_edited(path: Path, what: str, manifest: Manifest | None) -> str:
    """Why ``path``, where ``what``, is not ours to edit by what a run has shown; else empty."""
    if not _INSTALLED.isdisjoint(path.parts):
        return f"{what} inside an installed package ({path})"
    if edited_since(path, manifest):
        return f"{path.name} was edited after this run: run it again"
    return ""


def edited_since(path: Path, manifest: Manifest | None) -> bool:
    """Whether the line that the run reported may be another one by now."""
    try:
        return manifest is not None and path.stat().st_mtime_ns > manifest.started_ns
    except OSError:
        return False


def _command(
    path: Path, line: int, change: CallChange, manifest: Manifest | None
) -> tuple[tuple[str, ...] | None, str]:
    """The command with the script's own option for the first of the arguments, and why its
    default must not be changed, empty where it decides."""
    script = script_of(manifest)
    # The options of another file's parser are not certain to be those of the command.
    if manifest is None or script is None or script.path.resolve() != path.resolve():
        return None, ""
    value = next(iter(change.as_written.values()))
    found = _option(path, line, change.spec, change.as_written)
    if found is None:
        return None, ""
    option, declared, suffices = found
    given = CommandOption(manifest.command, script.begin, option, declared)
    if given.unsure is not None:
        why_not = f"{given.unsure} in the command may set {option.long_flag}: change it there"
        return None, why_not
    already = f"the command sets {option.long_flag}: change it there" if given.is_given else ""
    return given.with_value(value) if suffices else None, already


def _option(
    path: Path, line: int, spec: CallSpec, arguments: Mapping[str, Literal]
) -> tuple[DeclaredOption, list[DeclaredOption], bool] | None:
    """The option that the first of the call's ``arguments`` reads, also through ``int(...)``, all
    options of the file, and whether the call needs no other change."""
    name, kind = next((name, type(value)) for name, value in arguments.items())
    try:
        program = parse_program(read_source(path))
        call = call_at(program, line, spec)
        value = argument(call, name, spec.positions.get(name))
    except PatchRefusedError:
        return None
    converted = isinstance(value, ast.Call) and ast.unparse(value.func) == kind.__name__
    if isinstance(value, ast.Call) and converted and len(value.args) == 1:
        value = value.args[0]
    option = option_behind(program, value, kind) if value is not None else ""
    if isinstance(option, str):
        return None
    return option, declared_options(program), _suffices(program, call, spec, arguments)


def _suffices(
    program: Program, call: ast.Call, spec: CallSpec, arguments: Mapping[str, Literal]
) -> bool:
    """Whether the call takes the option's value as it stands, without losing other arguments."""
    try:
        edits = spec.plan(spec, program, call, arguments) if spec.plan else {}
    except PatchRefusedError:
        # That the source cannot be changed is no reason against a command, unless it would raise.
        return all(value != 0 for value in arguments.values())
    return not any(isinstance(edit, RemoveKeyword) for edit in edits.values())
