"""What a fix is: a row of what it changes in a training, and what is against that.

It changes the arguments of a call, the text around a line, or variables of the environment."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from perftui.analysis.ops.call_groups import INSTALLED
from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.rules import answered_by
from perftui.facts.fact import Facts
from perftui.facts.place import Place
from perftui.facts.source.source_calls import in_own_files
from perftui.fixes.apply_and_undo import applied_to, patch_store
from perftui.fixes.option import WRITTEN, FixOption, Patch, Risk
from perftui.fixes.source.calls import CallSpec, argument, call_at, each_changed
from perftui.fixes.source.edits import Edit, RemoveKeyword
from perftui.fixes.source.patching import apply_edits, call_patch
from perftui.run.manifest import Manifest, Override
from perftui.script.command_line import (
    CommandOption,
    DeclaredOption,
    declared_options,
    option_behind,
    script_of,
)
from perftui.script.names import qualified_name
from perftui.script.program import (
    Literal,
    NothingToChangeError,
    PatchRefusedError,
    Program,
    parse_program,
    read_source,
)
from perftui.script.training import training_loop


@dataclass(frozen=True)
class CallChange:
    """A call of the training that is to be made with other arguments."""

    target: str
    """The agent's name for it: ``DataLoader``, ``optimizer``."""
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
    """Arguments that the script passed, as far as they are known."""
    risks: tuple[Risk, ...] | None = None
    """Those of the fix where None."""
    why_not: str = ""
    """Why it would be wrong or useless here; then neither tried nor written."""
    uncertain: str = ""
    """Why the source must not be changed, though a run may try it."""
    others: tuple[str, ...] = ()
    """``file:line`` of other calls that the same fix is about, which stay as they are."""

    def notes(self, patch: Patch | None) -> tuple[str, ...]:
        """What else changes or is left to be done, for a person: of ``patch``, and of the other
        calls that it does not reach."""
        sentences = patch.notes if patch else ()
        parted = (place.rpartition(":") for place in self.others)
        short = (f"{Path(file).name}:{line}" for file, _, line in parted)
        text = " ".join(sentences)
        left = [name for name in short if not re.search(rf"{re.escape(name)}\b", text)]
        if not left:
            return sentences
        noun = f"{self.spec.noun}s" if len(left) > 1 else f"{self.spec.noun}"
        head = f"The {noun} made at {' and '.join(left)} {'feed' if len(left) > 1 else 'feeds'}"
        stays = "stay unchanged" if len(left) > 1 else "stays unchanged"
        return (*sentences, f"{head} the training, too, and {stays}: this is half of the fix.")

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
    # The value that an override replaced in this run is not known.
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
    """Why the file at ``path``, where ``what``, is not ours to edit; empty where it is."""
    if not INSTALLED.isdisjoint(path.parts):
        return f"{what} inside an installed package ({path})"
    if edited_since(path, manifest):
        return f"{path.name} was edited after this run: run it again"
    return ""


def edited_since(path: Path, manifest: Manifest | None) -> bool:
    """Whether the line that the run reported may be another one by now."""
    return manifest is not None and modified_ns(path) > manifest.started_ns


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
    deciding = _deciding_option(path, line, change.spec, change.as_written)
    if deciding is None:
        return None, ""
    option, declared, suffices = deciding
    setting = CommandOption(manifest.command, script.begin, option, declared)
    if setting.unsure is not None:
        why_not = f"{setting.unsure} in the command may set {option.long_flag}: change it there"
        return None, why_not
    already = f"the command sets {option.long_flag}: change it there" if setting.is_given else ""
    return setting.with_value(value) if suffices else None, already


def _deciding_option(
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
    try:
        edits = spec.plan(spec, program, call, arguments) if spec.plan else {}
        suffices = not any(isinstance(edit, RemoveKeyword) for edit in edits.values())
    except PatchRefusedError:
        # A source that cannot be changed rules out no command, unless that would raise.
        suffices = all(value != 0 for value in arguments.values())
    return option, declared_options(program), suffices


Plan = Callable[[Program, int], Sequence[Edit]]
"""The edits for what stands at a line; raises ``PatchRefusedError`` where it is not certain."""


@dataclass(frozen=True)
class LineChange:
    """A change around ``file:line``, None where the run names none; it is tried by running the
    patched text."""

    title: str
    """What will change, in a few words: ``no gc.collect() in the loop``."""
    file: str | None
    line: int | None
    plan: Plan
    advice: str
    """What to write by hand."""
    override: Override | None = None
    """An override of the same effect for one run, if the text is uncertain or cannot be tried."""


def changed_lines(change: LineChange, facts: Facts) -> SourceChange:
    """The patch of ``change``, or why there is none; reads the source file."""
    if change.file is None or change.line is None:
        return SourceChange(why_not="the run names no line of the script for it")
    path = Path(change.file)
    if why := why_not_edited(path, "the line is", facts.manifest):
        return SourceChange(why_not=why)
    try:
        source = read_source(path)
        after, _ = apply_edits(source, change.plan(parse_program(source), change.line))
    except PatchRefusedError as refusal:
        return SourceChange(why_not=str(refusal))
    return SourceChange(Patch(path, source, after))


def is_certain(change: LineChange) -> bool:
    """Whether the source, as it is now, can be changed so; cheap to ask again."""
    return _refused_as(change) is None


def has_subject(change: LineChange, facts: Facts) -> bool:
    """Whether the file has the code that ``change`` is about, one of several fixes of a finding;
    cheap to ask again. A file edited since the run may have had it."""
    is_old = change.file is not None and edited_since(Path(change.file), facts.manifest)
    return is_old or _refused_as(change) is not NothingToChangeError


def _refused_as(change: LineChange) -> type[PatchRefusedError] | None:
    """How the plan refuses the source as it is now; None where it does not."""
    if change.file is None or change.line is None:
        return PatchRefusedError
    path = Path(change.file)
    return _planned(path, modified_ns(path), change.line, change.plan)


@lru_cache(maxsize=64)
def _planned(path: Path, _: int, line: int, plan: Plan) -> type[PatchRefusedError] | None:
    try:
        plan(parse_program(read_source(path)), line)
    except PatchRefusedError as refusal:
        return type(refusal)
    return None


def modified_ns(path: Path) -> int:
    """When the file was last changed, ns, as a key of caches; 0 where it is not there."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def has_finding(facts: Facts, *rules: str) -> bool:
    """Whether any of ``rules`` has a finding."""
    return any(finding.rule in rules for finding in diagnosis(facts).findings)


class NamedLine(NamedTuple):
    """A line of the user's own code."""

    file: str
    line: int
    short: str = ""
    """File name and line, without directories; empty where the fix is not about this very line."""


def named_line(place: Place | None) -> NamedLine | None:
    """The line of ``place``; None where it has none."""
    if place is None or not place.file or not place.line:
        return None
    return NamedLine(place.file, place.line, place.short)


def finding_line(facts: Facts, *rules: str) -> NamedLine | None:
    """The line that the first finding of ``rules`` names; None where none does."""
    findings = (finding for finding in diagnosis(facts).findings if finding.rule in rules)
    return next((line for finding in findings if (line := named_line(finding.place))), None)


def finding_line_or_script(facts: Facts, *rules: str) -> NamedLine | None:
    """The line that the first finding of ``rules`` names, else the start of the script; None where
    there is no such finding."""
    place = finding_line(facts, *rules)
    return NamedLine(place.file, place.line) if place else script_with_finding(facts, *rules)


def script_with_finding(facts: Facts, *rules: str) -> NamedLine | None:
    """The start of what the run's command runs, where any of ``rules`` has a finding; else None."""
    script = script_of(facts.manifest)
    return NamedLine(str(script.path), 1) if script and has_finding(facts, *rules) else None


def place_of_loop(facts: Facts) -> tuple[str | None, int | None]:
    """File and line of the loop that trains, in the first of the user's own files that has one."""

    def line_of_loop(program: Program) -> Iterator[int]:
        with suppress(PatchRefusedError):
            yield training_loop(program).lineno

    return next(iter(in_own_files(facts, line_of_loop)), (None, None))


def stands_in_source(fix: str, change: CallChange | LineChange, facts: Facts) -> bool:
    """Whether ``change`` was written after the run began: by us, or by whoever edited the file.

    A change from before the run does not count: the run was made with it.
    """
    if change.file is None or not edited_since(Path(change.file), facts.manifest):
        return False
    if facts.run is not None:
        began = facts.run.manifest.started_ns
        for applied in applied_to(Path(change.file), patch_store(facts.run.root)):
            # If the fix of a patch was not noted, the title decides.
            is_it = (applied.fix or applied.title) in (fix, change.title)
            if is_it and applied.applied_ns > began:
                return True
    return isinstance(change, CallChange) and not change.uncertain and _calls_have_it(change)


def _calls_have_it(change: CallChange) -> bool:
    """Whether every such call of the file has the arguments: lines may have moved, so which of
    several the run was about is not certain."""
    try:
        program = parse_program(read_source(Path(change.file or "")))
        names = change.spec.names
        calls = [call for call in program.calls() if qualified_name(program, call.func) in names]
        plan = change.spec.plan or each_changed
        return bool(calls) and not any(
            plan(change.spec, program, call, change.as_written) for call in calls
        )
    except PatchRefusedError:
        return False


Change = CallChange | LineChange | FixOption
"""What a fix changes; an option is all that can be said of it."""


@dataclass(frozen=True)
class Fix:
    """One answer to findings."""

    id: str
    what: str
    """What the fix does, in one line of a table."""
    explanation: str
    """What changes and what does not, in a few sentences for a person."""
    change: Callable[[Facts], Change | None]
    """The change as it would be made here; None where there is nothing that it could change."""
    risks: tuple[Risk, ...] = ()
    """All risks that it may have."""
    plan: Plan | None = None
    """The plan of its change, if that is the same everywhere."""


def fix(
    *, what: str, risks: tuple[Risk, ...] = ()
) -> Callable[[Callable[[Facts], Change | None]], Fix]:
    """Makes a fix of the function that finds the change.

    The function's docstring is the explanation, and its name the id, with hyphens: ``gc_freeze`` is
    ``gc-freeze``, and so is ``gc_freeze_fix``, where something else has that name.
    """

    def made(change: Callable[[Facts], Change | None]) -> Fix:
        name = change.__name__.removesuffix("_fix").replace("_", "-")
        return Fix(name, what, " ".join((change.__doc__ or "").split()), change, risks)

    return made


def line_fix(
    *,
    what: str,
    title: str,
    advice: str,
    at: Callable[..., NamedLine | None] = finding_line,
    risks: tuple[Risk, ...] = (),
    is_one_of_several: bool = False,
) -> Callable[[Plan], Fix]:
    """Makes a fix of the plan of a change that is the same wherever one of its rules has a finding.

    The plan's docstring and name are those of the fix, as with ``fix``. ``at`` says where it
    begins: ``finding_line``, ``script_with_finding``, ``finding_line_or_script``. One of several
    that answer the same findings is offered only where the file has its subject.
    """

    def made(plan: Plan) -> Fix:
        def change(facts: Facts) -> LineChange | None:
            place = at(facts, *answered_by(row.id))
            if place is None:
                return None
            where = f"{place.short}: " if place.short else ""
            result = LineChange(title, place.file, place.line, plan, f"{where}{advice}")
            return result if not is_one_of_several or has_subject(result, facts) else None

        change.__name__, change.__doc__ = getattr(plan, "__name__", ""), plan.__doc__
        row = fix(what=what, risks=risks)(change)
        return replace(row, plan=plan)

    return made


def option(fix: Fix, facts: Facts) -> FixOption | None:
    """``fix`` as it can be offered for a run; reads and parses source files."""
    change = fix.change(facts)
    return offered(fix, change, facts) if change else None


def offered(fix: Fix, change: Change, facts: Facts) -> FixOption:
    """``change`` as it can be tried and written for a run; reads and parses source files."""
    if isinstance(change, FixOption):
        return change
    override: Override | None = None
    script = script_of(facts.manifest)
    script_word = script.word if script else None
    if isinstance(change, LineChange):
        written = changed_lines(change, facts)
        # If the text can be tried, it is what would be written.
        if written.patch is None or script_word is None:
            override = change.override
    elif change.why_not:
        written = SourceChange(why_not=change.why_not)
    else:
        written = source_change(change, facts)
        patch_is_more = written.patch is not None and written.patch.changes_beside
        if not patch_is_more or script_word is None:
            override = Override(
                change.target, dict(change.arguments), change.file, change.line, fix.id
            )
    own = change.risks if isinstance(change, CallChange) else None
    risks = fix.risks if own is None else own
    is_possible = isinstance(change, LineChange) or not change.why_not
    is_written = is_possible and not written.patch and stands_in_source(fix.id, change, facts)
    notes = written.patch.notes if written.patch else ()
    if isinstance(change, CallChange):
        notes = () if change.why_not else change.notes(written.patch)
    return FixOption(
        fix=fix.id,
        title=change.title,
        explanation=" ".join((fix.explanation, *notes)),
        risks=risks if is_possible else (),
        override=override,
        patch=written.patch,
        why_not=WRITTEN if is_written else written.why_not,
        advice=change.advice if is_possible else "",
        file=change.file,
        line=change.line,
        argv=written.argv,
        script_word=script_word,
        is_written=is_written,
    )
