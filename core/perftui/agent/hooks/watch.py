"""Wraps functions of torch, at the places that the agent listens at.

The script sees a function that looks and behaves like torch's own. Where the installation is
compiled there is no frame of ours either: it would stand in every traceback, and warnings that
torch gives in the name of its caller would name us.

The places are chosen because torch.compile takes them as they are: global module hooks make it
recompile at every step, and hooks on instances are pickled and copied with the model.
"""

from __future__ import annotations

import dis
import functools
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from ...wire.ring import BACKWARD, FORWARD
from ..native import IS_COMPILED, CompiledAround, CompiledFastPath

if TYPE_CHECKING:
    from ..recording.session import Session

Enter = Callable[[tuple[Any, ...], "dict[str, Any] | None"], Any]
"""Called before a call, with its positional and named arguments. Its result is passed on to
``leave``, which is not called if that is None. A tuple of both kinds of arguments replaces those
given."""

Leave = Callable[[tuple[Any, ...], Any, Any, bool], object]
"""Called afterwards with the arguments, the result of ``Enter``, the result of the call (None where
it raised) and whether it returned. What it raises, which only a signal handler of the script may,
comes in place of the result."""


def put_around(
    torch: Any,
    original: Callable[..., Any],
    enter: Enter,
    leave: Leave | None = None,
    *,
    fast_path: CompiledFastPath | None = None,
    fast: tuple[Callable[..., int], Callable[..., bool]] | None = None,
    phase: int | None = None,
    insists: bool = False,
) -> Any:
    """The wrapper that takes the place of ``original``.

    With a ``fast_path`` the call is a phase, and is ignored within another one. ``fast`` are two
    functions of the fast path that are asked first, with the first argument of the call, or about a
    ``phase`` of that number. With ``insists`` ``leave`` is called again, without a result, where a
    signal handler has raised in it.
    """
    for callee in (enter, leave):
        if callee is not None:
            pass_by(torch, callee, with_callees=True)
    # Attributes of a callable object of the script may run its code.
    is_function = isinstance(original, FunctionType)
    if not IS_COMPILED:
        from ..native.plain import plain_around

        call = plain_around(original, enter, leave, fast_path, phase == BACKWARD, insists)
        pass_by(torch, call, with_callees=False)
        return functools.update_wrapper(call, original) if is_function else call
    around: Any = CompiledAround()
    around.original, around.enter = original, enter
    if leave is not None:
        around.leave = leave
    if fast_path is not None:
        around.fast_path = fast_path
    if fast is not None:
        around.fast_enter, around.fast_leave = fast
    if phase is not None:
        around.phase = phase
    around.goes_back, around.insists = phase == BACKWARD, insists
    if not is_function:
        return around
    # torch.compile may take the wrapper for the original and trace that in its place. It looks for
    # captured variables and defaults in the function object itself, and fails where that is none.
    parts = original.__closure__, original.__defaults__, original.__kwdefaults__
    around.poses = all(part is None for part in parts)
    return functools.update_wrapper(around, original)


DISPATCH = ("_compiled_call_impl", "_call_impl")
"""Names in torch's own ``Module.__call__``, which does nothing but choose between the two."""


def dispatches(call: Callable[..., Any]) -> bool:
    """Whether ``call`` is the ``Module.__call__`` that we know."""
    code = getattr(call, "__code__", None)
    return code is not None and code.co_names == DISPATCH


def pass_by(torch: Any, function: Any, with_callees: bool) -> None:
    """Have torch.compile run ``function`` as it is where it meets its frame.

    While a compiled function runs, every Python frame that it calls is offered to the compiler. The
    agent's wrappers stand where frames of torch stood, which the compiler passes by: if it took
    ours instead, all modules would share the one cache of one code object, overflow it and fall
    back to eager execution. ``with_callees`` extends that to everything that ``function`` calls.
    """
    interface = torch._C._dynamo.eval_frame
    code = function.__code__
    if hasattr(interface, "set_code_exec_strategy"):
        action = interface._FrameAction
        callees = action.SKIP if with_callees else action.DEFAULT
        interface.set_code_exec_strategy(code, interface._FrameExecStrategy(action.SKIP, callees))
    elif hasattr(interface, "skip_code"):
        # Before torch 2.7 only the frame itself can be skipped.
        interface.skip_code(code)


def watch_steps(
    torch: Any, *, before: Callable[..., None] | None = None, after: Callable[..., None]
) -> None:
    """Have ``before`` and ``after`` called around each step of any optimizer, the first argument.

    A compiled caller stops its graph there and really calls them, each time.
    """
    # torch.optim hides this submodule behind its own names.
    module = sys.modules[torch.optim.Optimizer.__module__]
    for hook, register in (
        (before, module.register_optimizer_step_pre_hook),
        (after, module.register_optimizer_step_post_hook),
    ):
        if hook is not None:
            # The mark of ``torch.compiler.disable``, which itself would import the compiler, a
            # second or more, into scripts that never compile.
            vars(hook).update(_torchdynamo_disable=True, _torchdynamo_disable_msg="perftui")
            pass_by(torch, hook, with_callees=True)
            register(hook)


NO_LOCATION = 15 << 3
NO_COLUMNS = 13 << 3
COLUMNS = 14 << 3
"""Kinds of entries in a location table of Python 3.11 and later, for one instruction each."""


def with_location_of(code: CodeType, like: CodeType, methods: tuple[str, ...]) -> CodeType:
    """``code`` with file and name of ``like``, as warnings and tracebacks show them.

    Lines where both call a method of ``self`` that is one of ``methods`` become those of ``like``;
    all others become the first line of ``like``.
    """
    theirs = {name: (line, column) for line, name, column in _calls(like, methods)}
    lines = {
        line: (theirs[name][0], theirs[name][1] - column)
        for line, name, column in _calls(code, methods)
        if name in theirs
    }
    changes: dict[str, Any] = {}
    if sys.version_info >= (3, 11):
        changes["co_qualname"] = like.co_qualname
        changes["co_linetable"] = _table(code, lines, like.co_firstlineno)
    else:
        changes["co_linetable"] = _table_of_lines(code, lines, like.co_firstlineno)
    return code.replace(
        co_filename=like.co_filename,
        co_name=like.co_name,
        co_firstlineno=like.co_firstlineno,
        **changes,
    )


def _calls(code: CodeType, methods: tuple[str, ...]) -> list[tuple[int, str, int]]:
    """Lines that call one of ``methods`` with ``args``: line, method, column of ``self``."""
    at = {place: line for start, end, line in code.co_lines() for place in range(start, end)}
    names: dict[int | None, set[str]] = {}
    columns: dict[int | None, int] = {}
    for step in dis.get_instructions(code):
        line = at.get(step.offset)
        values = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        names.setdefault(line, set()).update(name for name in values if isinstance(name, str))
        if sys.version_info >= (3, 11) and "self" in values and step.positions is not None:
            columns.setdefault(line, step.positions.col_offset or 0)
    return [
        (line, name, columns.get(line, 0))
        for line, loaded in names.items()
        for name in methods
        if line is not None and {name, "args"} <= loaded
    ]


def _table(code: Any, lines: dict[int, tuple[int, int]], first: int) -> bytes:
    """Location table in the format of Python 3.11 and later."""
    table = bytearray()
    now = first
    for line, end_line, column, end_column in code.co_positions():
        if line is None:
            table.append(0x80 | NO_LOCATION)
            continue
        target, shift = lines.get(line, (first, 0))
        is_known = line in lines and None not in (end_line, column, end_column)
        table.append(0x80 | (COLUMNS if is_known else NO_COLUMNS))
        delta = target - now
        _add(table, delta << 1 if delta >= 0 else -delta << 1 | 1)
        if is_known:
            for number in (end_line - line, column + shift + 1, end_column + shift + 1):
                _add(table, number)
        now = target
    return bytes(table)


def _add(table: bytearray, number: int) -> None:
    while number >= 64:
        table.append(0x40 | number & 63)
        number >>= 6
    table.append(number)


def _table_of_lines(code: CodeType, lines: dict[int, tuple[int, int]], first: int) -> bytes:
    """Location table of Python 3.10: pairs of code length and line difference in bytes."""
    table = bytearray()
    now = first
    for start, end, line in code.co_lines():
        target = now if line is None else lines.get(line, (first, 0))[0]
        length, delta = end - start, target - now
        # In steps that fit into a signed byte.
        while not -127 <= delta <= 127:
            part = 127 if delta > 0 else -127
            table += bytes((0, part & 255))
            delta -= part
        while length > 254:
            table += bytes((254, delta & 255))
            length, delta = length - 254, 0
        table += bytes((length, delta & 255))
        now = target
    return bytes(table)


def watch_modules(torch: Any, session: Session) -> None:
    """Time outermost calls of modules."""
    original = torch.nn.Module.__call__
    session.inner_calls_cost = not dispatches(original)
    make = _wrapping_call if session.inner_calls_cost else _dispatching_call
    torch.nn.Module.__call__ = functools.wraps(original)(make(torch, original, session))


def _dispatching_call(torch: Any, original: Any, session: Session) -> Callable[..., Any]:
    """Replace ``Module.__call__``, in tracebacks too.

    During an outermost call it has the code of torch's function, so that the modules inside,
    hundreds in some models, cost nothing: even to ask where they are took 0.2 us each. Exchanging
    the code takes 20 ns; exchanging the method would make the interpreter look up the methods of
    all modules anew, 0.2 ms.
    """
    # The first captured variable by name must be that of ``module_ranges``, which explains why.
    is_compiling, path = torch.compiler.is_compiling, session.fast_path

    def module_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        # First: for the compiler it is a constant, so it never looks at the session nor guards what
        # it finds there.
        if is_compiling() or path.inside:
            if self._compiled_call_impl is not None:
                return self._compiled_call_impl(*args, **kwargs)
            return self._call_impl(*args, **kwargs)
        start = path.enter_forward() or session.enter_forward(self, args, kwargs)
        if not start:
            return original(self, *args, **kwargs)
        try:
            path.inside = True
            module_call.__code__ = passing
            if self._compiled_call_impl is not None:
                return self._compiled_call_impl(*args, **kwargs)
            return self._call_impl(*args, **kwargs)
        finally:
            module_call.__code__ = listening
            path.inside = path.is_off
            if not path.leave(FORWARD, start):
                session.leave(FORWARD, start)

    listening = with_location_of(module_call.__code__, original.__code__, DISPATCH)
    # Code can only be exchanged for code that captures as many variables.
    passing = original.__code__.replace(co_freevars=listening.co_freevars)

    def listen() -> None:
        module_call.__code__ = listening

    # A child forked within a module may train, and never return from there.
    os.register_at_fork(after_in_child=listen)
    for code in (passing, listening):
        module_call.__code__ = code
        pass_by(torch, module_call, with_callees=False)
    return module_call


def _wrapping_call(
    torch: Any, original: Callable[..., Any], session: Session
) -> Callable[..., Any]:
    """Wrap any ``Module.__call__``, for a torch that changed it."""
    is_compiling, path = torch.compiler.is_compiling, session.fast_path

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or path.inside:
            return original(self, *args, **kwargs)
        start = path.enter_forward() or session.enter_forward(self, args, kwargs)
        if not start:
            return original(self, *args, **kwargs)
        try:
            path.inside = True
            return original(self, *args, **kwargs)
        finally:
            path.inside = path.is_off
            if not path.leave(FORWARD, start):
                session.leave(FORWARD, start)

    pass_by(torch, call, with_callees=False)
    return call


def watch_backward(torch: Any, session: Session) -> None:
    """Time the autograd engine, which ``backward()`` and ``autograd.grad`` both call."""
    original = getattr(torch.autograd, "_engine_run_backward", None)
    if original is None:
        session.notes.write(
            "warning", {"message": "this version of torch hides the autograd engine"}
        )
        return

    path = session.fast_path
    torch.autograd._engine_run_backward = put_around(
        torch,
        original,
        lambda args, _: session.enter_backward(args[0] if args else ()) or None,
        lambda _, start, *__: session.leave(BACKWARD, start),
        fast_path=path,
        fast=(path.enter_backward, path.leave),
        phase=BACKWARD,
    )


def watch_optimizers(torch: Any, session: Session) -> None:
    """Time ``step`` of every optimizer, and notice steps that a gradient scaler skips."""
    path = session.fast_path

    def before(optimizer: Any, *_: Any) -> None:
        if not path.enter_optimizer(optimizer):
            session.enter_optimizer(optimizer)

    def after(optimizer: Any, *_: Any) -> None:
        if not path.leave_optimizer(optimizer):
            session.leave_optimizer(optimizer)

    watch_steps(torch, before=before, after=after)

    def enter(args: Any, kwargs: Any) -> list[Any]:
        optimizer = args[1] if len(args) > 1 else (kwargs or {}).get("optimizer")
        return [optimizer, session.optimizer_steps]

    def leave(_: Any, token: list[Any], __: Any, arrived: bool) -> None:
        optimizer, finished = token
        if arrived and session.optimizer_steps == finished:
            session.skipped_optimizer(optimizer)

    scaler_class = torch.amp.GradScaler
    scaler_class.step = put_around(torch, scaler_class.step, enter, leave)


def watch_loaders(torch: Any, session: Session) -> None:
    """Time the wait for each batch and the start of each epoch."""
    path = session.fast_path
    iterator_class = torch.utils.data.dataloader._BaseDataLoaderIter
    iterator_class.__next__ = put_around(
        torch,
        iterator_class.__next__,
        lambda args, _: session.enter_fetch(args[0]) or None,
        lambda args, *left: session.leave_fetch(args[0], *left),
        fast_path=path,
        fast=(path.enter_fetch, path.leave_fetch),
    )
    loader_class = torch.utils.data.DataLoader
    loader_class.__iter__ = put_around(
        torch,
        loader_class.__iter__,
        lambda *_: session.enter_loader_start() or None,
        lambda args, start, iterator, _: session.leave_loader_start(args[0], iterator, start),
        fast_path=path,
    )


def watch_profilers(torch: Any, session: Session) -> None:
    """End our recording while a profiler of the script runs."""
    profiler = torch.autograd.profiler
    _watch_profiler(torch, profiler.profile, "_prepare_trace", session)
    for name in ("emit_nvtx", "emit_itt"):
        kind = getattr(profiler, name, None)
        if kind is not None:
            _watch_profiler(torch, kind, "__enter__", session)


def _watch_profiler(torch: Any, kind: Any, begin_name: str, session: Session) -> None:
    # Imports what the first ``record_function`` would import. Within a profile with stacks the name
    # of an import's frame is freed before it is read (torch 2.13): it may no longer be text by
    # then, and reading the script's profile raises.
    load = getattr(torch.autograd.profiler, "_maybe_cupti_monitor", lambda: None)

    def begins(args: tuple[Any, ...], _: Any) -> None:
        with suppress(Exception):
            load()
        session.foreign_profiler(args[0], True)

    setattr(kind, begin_name, put_around(torch, getattr(kind, begin_name), begins))
    kind.__exit__ = put_around(
        torch,
        kind.__exit__,
        lambda *_: True,
        lambda args, *_: session.foreign_profiler(args[0], False),
    )


def watch_saves(torch: Any, session: Session) -> None:
    """Time ``torch.save``."""
    saved = put_around(
        torch,
        torch.serialization.save,
        lambda *_: session.enter_save() or None,
        lambda args, start, *__: session.leave_save(args, start),
    )
    torch.serialization.save = torch.save = saved
