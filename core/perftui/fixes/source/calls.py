"""Which calls a fix is about, and the one of them that the profiler saw."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from perftui.fixes.source.edits import Edit, RemoveKeyword, ReplaceLiteral, edit_of
from perftui.script.names import is_shown, qualified_name
from perftui.script.program import (
    COMPREHENSIONS,
    FUNCTIONS,
    Decided,
    Literal,
    Loop,
    PatchRefusedError,
    Program,
    assigned_value,
    called_name,
    is_literal,
    keyword,
)
from perftui.script.training import trains, trains_each_turn
from perftui.script.values import Wanted

_FEW = 4
"""Turns of a loop over values that are written out, such as "train" and "val": what it makes is
made once for each of them."""

Plan = Callable[["CallSpec", Program, ast.Call, Mapping[str, Literal]], Mapping[str, Edit]]
"""The edits that give a call its arguments, by the argument; those that it has are left out."""


@dataclass(frozen=True)
class CallSpec:
    """Which calls a fix is about, and what of them is certain."""

    noun: str
    """What such a call makes, in a word: ``loader``."""
    what: str
    """What is called, for a person: ``torch's DataLoader``."""
    names: Mapping[str, str]
    """Every qualified name of what is called, and the public one of each."""
    positions: Mapping[str, int] = field(default_factory=dict)
    """Arguments that may be given by position."""
    defaults: Mapping[str, Literal] = field(default_factory=dict)
    """Defaults of arguments, None where they are not known here."""
    why_not_iterated: str = ""
    """Why a call in ``iter(...)`` or ``next(...)`` is not changed; empty where it is."""
    why_not_in_loops: str = ""
    """Why a call in a loop or a comprehension of its function is not changed; empty where it is."""
    follows: bool = True
    """Whether a value is also changed where a variable, a dict, a default of a command-line option
    or a position gives it; else it has to be a literal keyword."""
    conflicts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By argument, the others that must not be true beside it."""
    alike: str = ""
    """Part of the names, in lower case, of what may be taken for such a call."""
    plan: Plan | None = None
    """Plans all edits, in place of one for each argument."""
    seen: Mapping[str, Literal] = field(default_factory=dict)
    """Arguments that the script passed in a run, as far as they are known."""


def call_at(program: Program, line: int, spec: CallSpec) -> ast.Call:
    """The call at ``line`` that ``spec`` describes; refused where there is none or more than one,
    or it stands where it is not changed."""
    spanning = [c for c in program.calls() if c.lineno <= line <= (c.end_lineno or line)]
    matches = [call for call in spanning if qualified_name(program, call.func) in spec.names]
    chosen = [call for call in matches if call.lineno == line] or matches
    if not chosen:
        names = [name for name in map(called_name, spanning) if name and spec.alike in name.lower()]
        if names:
            raise PatchRefusedError(f"line {line} calls {names[0]}, which may not be {spec.what}")
        raise PatchRefusedError(f"line {line} does not call {spec.what}")
    if len(chosen) > 1:
        raise PatchRefusedError(f"line {line} makes {len(chosen)} {spec.noun}s")
    (call,) = chosen
    for above in program.ancestors(call) if spec.why_not_iterated else ():
        if isinstance(above, ast.Call) and called_name(above) in ("iter", "next"):
            raise PatchRefusedError(spec.why_not_iterated)
        if isinstance(above, FUNCTIONS):
            break
    if spec.why_not_in_loops and (_makes_again(program, call) or _called_in_loops(program, call)):
        raise PatchRefusedError(spec.why_not_in_loops)
    return call


def _makes_again(program: Program, call: ast.Call) -> bool:
    """Whether loops of its function run ``call`` many times, apart from loops over a few values,
    and from loops whose turns train for many epochs, as one over folds."""
    loops = list(program.loops(call))
    again = loops[1:] if loops and _few(program, loops[0]) is not None else loops
    return any(not _trains_for_epochs(program, loop, call) for loop in again)


def _trains_for_epochs(program: Program, loop: ast.AST, call: ast.Call) -> bool:
    inner = (node for node in ast.walk(loop) if node is not loop and isinstance(node, Loop))
    return any(
        trains(program, part) and not trains_each_turn(program, part)
        for part in inner
        if call not in set(ast.walk(part))
    )


def _called_in_loops(program: Program, call: ast.Call) -> bool:
    """Whether the function around ``call`` is called in loops of the file and nowhere else."""
    around = (node for node in program.ancestors(call) if isinstance(node, FUNCTIONS))
    name = getattr(next(around, None), "name", "")
    calls = program.calls(name) if len(program.functions.get(name, ())) == 1 else []
    return bool(calls) and all(_makes_again(program, other) for other in calls)


def _few(program: Program, loop: ast.AST) -> ast.expr | None:
    """The values that ``loop`` goes through, where they are a few that are written out."""
    over: ast.expr | None = None
    if isinstance(loop, ast.For):
        over = loop.iter
    elif isinstance(loop, COMPREHENSIONS) and len(loop.generators) == 1:
        over = loop.generators[0].iter
    if isinstance(over, ast.Name):
        bindings = program.bindings(over.id)
        over = assigned_value(program, bindings[0]) if len(bindings) == 1 else None
    if not isinstance(over, (ast.List, ast.Tuple, ast.Set)) or len(over.elts) > _FEW:
        return None
    return over if all(isinstance(node, ast.Constant) for node in over.elts) else None


_COMPUTED = (ast.Call, ast.Await, ast.NamedExpr, ast.Yield, ast.YieldFrom)


def argument(call: ast.Call, name: str, position: int | None) -> ast.expr | None:
    """The expression given for ``name``, by keyword or at ``position``; None where there is none,
    refused where positional arguments are unpacked, so that positions are unknown."""
    if any(isinstance(arg, ast.Starred) for arg in call.args):
        raise PatchRefusedError("the call unpacks positional arguments")
    value = keyword(call, name)
    if value is None and position is not None and position < len(call.args):
        return call.args[position]
    return value


def decided(
    program: Program, call: ast.Call, spec: CallSpec, name: str, kind: type[object]
) -> Decided:
    """What decides the argument ``name`` of ``call``; an option has to be one for a ``kind``;
    refused where that is not certain.

    If the source leaves several, ``spec.seen`` shows which of them the run had."""
    value = argument(call, name, spec.positions.get(name))
    unpacked = [keyword.value for keyword in call.keywords if keyword.arg is None]
    if not spec.follows:
        if unpacked:
            raise PatchRefusedError(f"{name} may come from **{ast.unparse(unpacked[0])}")
        if value in call.args:
            raise PatchRefusedError(f"{name} is given by position")
        if value is not None and not is_literal(value):
            raise PatchRefusedError(f"{name}={ast.unparse(value)} is not a literal")
    wanted = Wanted(program, name, kind, spec.seen.get(name))
    default = spec.defaults.get(name)
    if value is not None:
        return wanted.followed(value)
    if len(unpacked) > 1:
        raise PatchRefusedError(f"{name} may be in any of {len(unpacked)} unpacked dicts")
    result = wanted.from_dict(unpacked[0], default) if unpacked else None
    return result or Decided(default, program.span(call), name)


def changed(
    program: Program, call: ast.Call, spec: CallSpec, name: str, value: Literal
) -> Edit | None:
    """The edit that gives ``call`` the argument, None where it has it; refused where what decides
    it now is not certain, or is of another kind than ``value``."""
    now = decided(program, call, spec, name, type(value))
    for other in spec.conflicts.get(name, ()) if value else ():
        setting = argument(call, other, spec.positions.get(other))
        if setting is not None and not (is_literal(setting) and not ast.literal_eval(setting)):
            raise PatchRefusedError(f"{name} does not go with {other}={ast.unparse(setting)}")
    unset = now.keyword or now.value is spec.defaults.get(name) is None
    if not unset and not now.is_a(type(value)):
        raise PatchRefusedError(f"{name} is {now.value!r}")
    return None if now.value == value else edit_of(now, value)


def each_changed(
    spec: CallSpec, program: Program, call: ast.Call, arguments: Mapping[str, Literal]
) -> dict[str, Edit]:
    """The edits that give ``call`` each of ``arguments`` by itself, those left out that it has;
    refused where what decides one now is not certain, or is of another kind."""
    edits = {name: changed(program, call, spec, name, arguments[name]) for name in arguments}
    return {name: edit for name, edit in edits.items() if edit}


def removed(program: Program, call: ast.Call, name: str) -> RemoveKeyword:
    """The keyword ``name`` taken out of ``call``; refused where it is not given there, or computed
    there, which may do more than that."""
    value = keyword(call, name)
    if value is None:
        raise PatchRefusedError(f"the call has no keyword {name}")
    if any(isinstance(node, _COMPUTED) for node in ast.walk(value)):
        raise PatchRefusedError(f"{name}={ast.unparse(value)} is computed")
    return RemoveKeyword(program.span(call), name)


_MOST = 3
"""Readers that are named in a sentence."""


def consequences(
    program: Program, call: ast.Call, spec: CallSpec, readers: Iterable[ast.expr], file: str
) -> tuple[str, ...]:
    """Sentences for a person; ``readers`` are what else reads the changed value."""
    over = next((_few(program, loop) for loop in program.loops(call)), None)
    several = (
        f"The call makes a {spec.noun} for each of {ast.unparse(over)}: all of them change."
        if over is not None
        else ""
    )
    return tuple(filter(None, (several, _shared(program, call, spec, readers, file))))


def stale_texts(program: Program, edits: Iterable[Edit], file: str) -> tuple[str, ...]:
    """Sentences about comments and help texts that name a value which ``edits`` replace."""
    sentences = []
    for edit in edits:
        if not isinstance(edit, ReplaceLiteral):
            continue
        line = edit.at[0]
        old = program.lines[line - 1][edit.at[1] : edit.at[3]]
        word = re.compile(rf"(?<![\w.]){re.escape(old)}(?![\w.]*\w)")
        if word.search(program.comments(line, line)):
            sentences.append(f"The comment at {file}:{line} still says {old}.")
        sentences += [
            f"The help text at {file}:{call.lineno} still says {old}."
            for call in program.calls("add_argument")
            if call.lineno <= line <= (call.end_lineno or line)
            and isinstance(text := keyword(call, "help"), ast.Constant)
            and word.search(str(text.value))
        ]
    return tuple(sentences)


def _shared(
    program: Program, call: ast.Call, spec: CallSpec, readers: Iterable[ast.expr], file: str
) -> str:
    inside = set(ast.walk(call))
    texts = [
        _reader_text(program, reader, spec, file)
        for reader in readers
        if reader not in inside and not is_shown(program, reader)
    ]
    # Loaders before lines that read the value for something else.
    unique = sorted(dict.fromkeys(texts), key=lambda text: text.startswith(f"{file}:"))
    if not unique:
        return ""
    more = [f"{len(unique) - _MOST} more"] if len(unique) > _MOST else []
    first, *rest = (*unique[:_MOST], *more)
    listed = f"{', '.join((first, *rest[:-1]))} and {rest[-1]}" if rest else first
    verb, pronoun = ("read", "them") if rest else ("reads", "it")
    return f"{listed} {verb} the same value: it changes for {pronoun}, too."


def _reader_text(program: Program, reader: ast.expr, spec: CallSpec, file: str) -> str:
    around = (reader, *program.ancestors(reader))
    calls = (node for node in around if isinstance(node, ast.Call))
    made = next((n for n in calls if qualified_name(program, n.func) in spec.names), None)
    if made is None:
        return f"{file}:{reader.lineno}"
    name = _target(program, made)
    return f"{name or f'another {spec.noun}'} at {file}:{made.lineno}"


def _target(program: Program, call: ast.Call) -> str:
    """The name that the statement around ``call`` gives what it makes; empty where none is."""
    statement = program.statement(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return ast.unparse(targets[0]) if len(targets) == 1 else ""
