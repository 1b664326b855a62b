"""The places of torch that the agent listens at.

Chosen because torch.compile takes them as they are: global module hooks make it recompile at every
step, and hooks on instances are pickled and copied with the model.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from .compiler import break_graph, pass_by
from .overrides import Overrides
from .ring import BACKWARD, FORWARD
from .session import Session


def watch_modules(torch: Any, session: Session) -> None:
    """Time outermost calls of modules."""
    original = torch.nn.Module.__call__
    is_plain = getattr(original, "__code__", None) and original.__code__.co_names == DISPATCH
    make = _dispatching_call if is_plain else _wrapping_call
    call = functools.wraps(original)(make(original, torch.compiler.is_compiling, session))
    for wrapper in (call, _timed_call):
        pass_by(torch, wrapper, with_callees=False)
    torch.nn.Module.__call__ = call


DISPATCH = ("_compiled_call_impl", "_call_impl")
"""Names in torch's own ``Module.__call__``, which does nothing but choose between the two."""


def _dispatching_call(
    original: Callable[..., Any], is_compiling: Callable[[], bool], session: Session
) -> Callable[..., Any]:
    """Take the place of the function of torch: inner modules meet no more frames than without us.

    A frame costs 0.3 us, and models have hundreds of modules.
    """

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        # First, so that the compiler, to which it is a constant, never looks at the session and
        # makes no guard of what it finds there.
        if is_compiling() or session.inside:
            if self._compiled_call_impl is not None:
                return self._compiled_call_impl(*args, **kwargs)
            return self._call_impl(*args, **kwargs)
        return _timed_call(original, session, self, args, kwargs)

    return call


def _wrapping_call(
    original: Callable[..., Any], is_compiling: Callable[[], bool], session: Session
) -> Callable[..., Any]:
    """Goes around whatever ``Module.__call__`` is, in a torch that changed it."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or session.inside:
            return original(self, *args, **kwargs)
        return _timed_call(original, session, self, args, kwargs)

    return call


def _timed_call(
    original: Callable[..., Any],
    session: Session,
    module: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    start = session.enter_forward(module)
    if not start:
        return original(module, *args, **kwargs)
    try:
        return original(module, *args, **kwargs)
    finally:
        session.leave(FORWARD, start)


def watch_backward(torch: Any, session: Session) -> None:
    """Time the autograd engine: ``backward()`` and ``autograd.grad`` both end there."""
    original = getattr(torch.autograd, "_engine_run_backward", None)
    if original is None:
        session.notes.write("warning", {"message": "this torch hides the autograd engine"})
        return

    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        start = session.enter_backward()
        if not start:
            return original(*args, **kwargs)
        try:
            return original(*args, **kwargs)
        finally:
            session.leave(BACKWARD, start)

    pass_by(torch, run, with_callees=False)
    torch.autograd._engine_run_backward = run


def watch_optimizers(torch: Any, session: Session) -> None:
    """Time ``step`` of every optimizer, and notice the ones a gradient scaler leaves out."""
    # torch.optim hides this submodule behind its own names.
    optimizer_module = sys.modules[torch.optim.Optimizer.__module__]

    def before(optimizer: Any, *_: Any) -> None:
        session.enter_optimizer(optimizer)

    def after(optimizer: Any, *_: Any) -> None:
        session.leave_optimizer(optimizer)

    optimizer_module.register_optimizer_step_pre_hook(break_graph(torch, before))
    optimizer_module.register_optimizer_step_post_hook(break_graph(torch, after))
    _watch_scaler(torch, session)


def _watch_scaler(torch: Any, session: Session) -> None:
    scaler_class = torch.amp.GradScaler
    original = scaler_class.step

    @functools.wraps(original)
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        before = session.optimizers.finished
        result = original(self, optimizer, *args, **kwargs)
        if session.optimizers.finished == before:
            session.skipped_optimizer(optimizer)
        return result

    pass_by(torch, step, with_callees=False)
    scaler_class.step = step


def watch_loaders(torch: Any, session: Session) -> None:
    """Time the wait for each batch and the start of each epoch."""
    loader_module = torch.utils.data.dataloader
    _watch_next(torch, loader_module._BaseDataLoaderIter, session)
    _watch_iter(torch, loader_module.DataLoader, session)


def _watch_next(torch: Any, iterator_class: Any, session: Session) -> None:
    original = iterator_class.__next__

    @functools.wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807 - it replaces one
        start = session.enter_fetch(self)
        if not start:
            return original(self)
        arrived = False
        try:
            batch = original(self)
            arrived = True
            return batch
        finally:
            session.leave_fetch(self, start, arrived)

    pass_by(torch, __next__, with_callees=False)
    iterator_class.__next__ = __next__


def _watch_iter(torch: Any, loader_class: Any, session: Session) -> None:
    original = loader_class.__iter__

    @functools.wraps(original)
    def __iter__(self: Any) -> Any:  # noqa: N807 - it replaces one
        start = session.enter_loader_start()
        if not start:
            return original(self)
        iterator = None
        try:
            iterator = original(self)
            return iterator
        finally:
            session.leave_loader_start(self, iterator, start)

    pass_by(torch, __iter__, with_callees=False)
    loader_class.__iter__ = __iter__


def watch_construction(torch: Any, session: Session, requests: list[Any]) -> None:
    """Remember where each loader is made and with what, and apply the overrides."""
    loader_class = torch.utils.data.DataLoader
    original = loader_class.__init__
    overrides = Overrides(torch, original, requests)

    # Frameworks read the signature of the constructor, hence wraps.
    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it replaces one
        passed = session.construct_loader(overrides, self, args, kwargs)
        original(self, *passed.args, **passed.kwargs)

    loader_class.__init__ = __init__


def watch_profilers(torch: Any, session: Session) -> None:
    """Make way for profilers that the script starts itself."""
    profiler = torch.autograd.profiler
    _watch_profiler(profiler.profile, "_prepare_trace", session)
    for name in ("emit_nvtx", "emit_itt"):
        kind = getattr(profiler, name, None)
        if kind is not None:
            _watch_profiler(kind, "__enter__", session)


def _watch_profiler(kind: Any, begin_name: str, session: Session) -> None:
    begin, end = getattr(kind, begin_name), kind.__exit__

    @functools.wraps(begin)
    def begins(self: Any, *args: Any, **kwargs: Any) -> Any:
        session.foreign_profiler_begins(self)
        return begin(self, *args, **kwargs)

    @functools.wraps(end)
    def ends(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return end(self, *args, **kwargs)
        finally:
            session.foreign_profiler_ends(self)

    setattr(kind, begin_name, begins)
    kind.__exit__ = ends
