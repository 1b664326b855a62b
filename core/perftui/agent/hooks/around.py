"""Wraps functions of torch.

The script sees a function that looks and behaves like torch's own. Where the installation is
compiled there is no frame of ours either: it would stand in every traceback, and warnings that
torch gives in the name of its caller would name us.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ...wire.ring import BACKWARD
from ..native import IS_COMPILED, CompiledAround, CompiledFastPath

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
