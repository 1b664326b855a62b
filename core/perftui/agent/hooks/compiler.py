"""Keeps torch.compile from compiling the agent.

While a compiled function runs, every Python frame that it calls is offered to the compiler. The
agent's wrappers stand where frames of torch stood, which the compiler passes by: if it took ours
instead, all modules would share the one cache of one code object, overflow it and fall back to
eager execution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DISPATCH = ("_compiled_call_impl", "_call_impl")
"""Names in torch's own ``Module.__call__``, which does nothing but choose between the two."""


def dispatches(call: Callable[..., Any]) -> bool:
    """Whether ``call`` is that function as it is known."""
    code = getattr(call, "__code__", None)
    return code is not None and code.co_names == DISPATCH


def pass_by(torch: Any, function: Any, with_callees: bool) -> None:
    """Have the compiler run ``function`` as it is where it meets its frame.

    ``with_callees`` extends that to everything it calls. Tracing into it from a compiled caller is
    another matter: see ``break_graph``.
    """
    interface = torch._C._dynamo.eval_frame
    code = function.__code__
    if hasattr(interface, "set_code_exec_strategy"):
        action = interface._FrameAction
        callees = action.SKIP if with_callees else action.DEFAULT
        interface.set_code_exec_strategy(code, interface._FrameExecStrategy(action.SKIP, callees))
    elif hasattr(interface, "skip_code"):
        # Before torch 2.7 there is no choice: the frame alone.
        interface.skip_code(code)


def break_graph(torch: Any, function: Any) -> Any:
    """Have a compiled caller stop its graph and really call ``function``, each time.

    It is the mark that ``torch.compiler.disable`` leaves; that function itself would import the
    compiler, a second or more, into scripts that never compile.
    """
    function._torchdynamo_disable = True
    function._torchdynamo_disable_msg = "perftui"
    pass_by(torch, function, with_callees=True)
    return function
