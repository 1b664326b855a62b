"""Where a call of the training can be changed: in the source, or by an option of the script."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from perftui.facts.fact import Facts
from perftui.fixes.command_option import CommandOption
from perftui.fixes.launched_script import launched_script
from perftui.fixes.model import Patch
from perftui.fixes.source.call_arguments import argument
from perftui.fixes.source.calls import CallSpec, call_at
from perftui.fixes.source.declared_options import DeclaredOption, declared_options, option_behind
from perftui.fixes.source.edits import Literal
from perftui.fixes.source.program import parse_program, read_source
from perftui.fixes.source.refused import PatchRefusedError

_INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Where pip and Debian's packages install; ``sysconfig`` knows only this interpreter's."""

Plan = Callable[[Path, int, Mapping[str, Literal], Mapping[str, Literal]], Patch]
"""Makes the patch of the call at a line of a file: its new arguments, and those it was seen with.

Raises ``PatchRefusedError`` where the change is not certain.
"""


@dataclass(frozen=True)
class SourceChange:
    """What can be written: a patch, a command, both, or neither and the reason."""

    patch: Patch | None = None
    argv: tuple[str, ...] | None = None
    why_not: str = ""
    """Why there is no patch."""


@dataclass(frozen=True)
class CallSource:
    """A call at ``line`` of ``file`` in the source of a run."""

    facts: Facts
    file: str | None
    line: int | None
    spec: CallSpec

    def change(
        self,
        arguments: Mapping[str, Literal],
        seen: Mapping[str, Literal],
        plan: Plan,
        uncertain: str = "",
    ) -> SourceChange:
        """How the call can be given ``arguments``; reads the source files.

        ``plan`` makes the patch, unless the call is ``uncertain``. Where the command already gives
        the option that decides, the source's default would change nothing, so only the command is
        offered.
        """
        noun = self.spec.noun
        if self.file is None or self.line is None:
            return SourceChange(why_not=f"the run does not say where the {noun} is made")
        path = Path(self.file)
        if not _INSTALLED.isdisjoint(path.parts):
            return SourceChange(why_not=f"the {noun} is made inside an installed package ({path})")
        if uncertain:
            return SourceChange(why_not=uncertain)
        if self._edited_since(path):
            return SourceChange(why_not=f"{path.name} has been edited since this run: run it again")
        argv, already = self._command(path, self.line, arguments)
        if already:
            return SourceChange(argv=argv, why_not=already)
        try:
            return SourceChange(plan(path, self.line, arguments, self._given(seen)), argv)
        except PatchRefusedError as refusal:
            return SourceChange(None, argv, str(refusal))

    def _given(self, seen: Mapping[str, Literal]) -> dict[str, Literal]:
        """What the script itself gave; unknown where an override stood in for it."""
        overrides = self.facts.manifest.overrides if self.facts.manifest else ()
        changed = {name for override in overrides for name in override.arguments}
        return {name: value for name, value in seen.items() if name not in changed}

    def _edited_since(self, path: Path) -> bool:
        """Whether the line that the run reported may be another one by now."""
        started = self.facts.manifest.started_ns if self.facts.manifest else None
        try:
            return started is not None and path.stat().st_mtime_ns > started
        except OSError:
            return False

    def _command(
        self, path: Path, line: int, arguments: Mapping[str, Literal]
    ) -> tuple[tuple[str, ...] | None, str]:
        """The command with the script's own option for the first of ``arguments``, and why its
        default must not be changed, empty where it decides."""
        if self.facts.manifest is None:
            return None, ""
        command = self.facts.manifest.command
        script = launched_script(command, Path(self.facts.manifest.cwd))
        # The options of another file's parser are not certain to be those of the command.
        if script is None or script.path.resolve() != path.resolve():
            return None, ""
        name, value = next(iter(arguments.items()))
        found = self._option(path, line, name, type(value))
        if found is None:
            return None, ""
        option, declared = found
        given = CommandOption(command, script.begin, option, declared)
        if given.unsure is not None:
            return (
                None,
                f"{given.unsure} in the command may give {option.long_flag}: change it there",
            )
        already = f"the command gives {option.long_flag}: change it there" if given.is_given else ""
        return given.with_value(value), already

    def _option(
        self, path: Path, line: int, name: str, kind: type[object]
    ) -> tuple[DeclaredOption, list[DeclaredOption]] | None:
        """The option that the call's argument reads, also through ``int(...)``, and all options of
        the file."""
        try:
            program = parse_program(read_source(path))
            value = argument(call_at(program, line, self.spec), name, self.spec.positions.get(name))
        except PatchRefusedError:
            return None
        converted = isinstance(value, ast.Call) and ast.unparse(value.func) == kind.__name__
        if isinstance(value, ast.Call) and converted and len(value.args) == 1:
            value = value.args[0]
        option = option_behind(program, value, kind) if value is not None else ""
        return None if isinstance(option, str) else (option, declared_options(program))
