"""Where the training's loader can be changed: its call in the source, and the script's options."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perftui.diagnosis.installed import is_installed
from perftui.facts.fact import Facts
from perftui.facts.loader import LoaderFacts, training_loader
from perftui.fixes.command_option import CommandOption
from perftui.fixes.launched_script import launched_script
from perftui.fixes.loader_arguments import LOADER, loader_arguments
from perftui.fixes.model import Patch
from perftui.fixes.source.call_arguments import argument
from perftui.fixes.source.calls import call_at
from perftui.fixes.source.declared_options import DeclaredOption, declared_options, option_behind
from perftui.fixes.source.edits import Literal
from perftui.fixes.source.program import parse_program, read_source
from perftui.fixes.source.refused import PatchRefusedError


@dataclass(frozen=True)
class SourceChange:
    """What can be written: a patch, a command, both, or neither and the reason."""

    patch: Patch | None = None
    argv: tuple[str, ...] | None = None
    why_not: str = ""
    """Why there is no patch."""


def loader_change(facts: Facts, arguments: Mapping[str, Literal]) -> SourceChange:
    """How ``arguments`` can be given to the loader; reads the source files.

    Where the command already gives the option that decides, the source's default would change
    nothing, so only the command is offered.
    """
    loader = training_loader(facts)
    if loader is None or loader.file is None or loader.line is None:
        return SourceChange(why_not="the run does not say where the loader is made")
    path = Path(loader.file)
    if is_installed(path):
        return SourceChange(why_not=f"the loader is made inside an installed package ({path})")
    if not loader.certain:
        return SourceChange(
            why_not="several loaders are made, and it is not certain which feeds the training"
        )
    if _edited_since(facts, path):
        return SourceChange(why_not=f"{path.name} has been edited since this run: run it again")
    argv, already = _command(facts, path, loader.line, arguments)
    if already:
        return SourceChange(argv=argv, why_not=already)
    try:
        patch = loader_arguments(path, loader.line, arguments, _seen(facts, loader))
        return SourceChange(patch, argv)
    except PatchRefusedError as refusal:
        return SourceChange(None, argv, str(refusal))


def _seen(facts: Facts, loader: LoaderFacts) -> dict[str, Literal | None]:
    """What the script gave its loader; unknown where an override stood in for it."""
    overrides = facts.manifest.overrides if facts.manifest else ()
    changed = {name for override in overrides for name in override.arguments}
    had = {"num_workers": loader.num_workers, "pin_memory": loader.pin_memory}
    return {name: value for name, value in had.items() if name not in changed}


def _edited_since(facts: Facts, path: Path) -> bool:
    """Whether the line that the run reported may be another one by now."""
    started = facts.manifest.started_ns if facts.manifest else None
    try:
        return started is not None and path.stat().st_mtime_ns > started
    except OSError:
        return False


def _command(
    facts: Facts, path: Path, line: int, arguments: Mapping[str, Literal]
) -> tuple[tuple[str, ...] | None, str]:
    """The command with the script's own option for the first of ``arguments``, and why its default
    must not be changed, empty where it decides."""
    if facts.manifest is None:
        return None, ""
    command = facts.manifest.command
    script = launched_script(command, Path(facts.manifest.cwd))
    # The options of another file's parser are not certain to be those of the command.
    if script is None or script.path.resolve() != path.resolve():
        return None, ""
    name, value = next(iter(arguments.items()))
    found = _option(path, line, name, type(value))
    if found is None:
        return None, ""
    option, declared = found
    given = CommandOption(command, script.begin, option, declared)
    if given.unsure is not None:
        return None, f"{given.unsure} in the command may give {option.long_flag}: change it there"
    already = f"the command gives {option.long_flag}: change it there" if given.is_given else ""
    return given.with_value(value), already


def _option(
    path: Path, line: int, name: str, kind: type[object]
) -> tuple[DeclaredOption, list[DeclaredOption]] | None:
    """The option that the call's argument reads, also through ``int(...)``, and all options of the
    file."""
    try:
        program = parse_program(read_source(path))
        value = argument(call_at(program, line, LOADER), name, LOADER.positions.get(name))
    except PatchRefusedError:
        return None
    converted = isinstance(value, ast.Call) and ast.unparse(value.func) == kind.__name__
    if isinstance(value, ast.Call) and converted and len(value.args) == 1:
        value = value.args[0]
    option = option_behind(program, value, kind) if value is not None else ""
    return None if isinstance(option, str) else (option, declared_options(program))
