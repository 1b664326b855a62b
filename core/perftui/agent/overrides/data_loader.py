"""Tries other arguments of a DataLoader for one run, if they change no order and no batch.

Random augmentation draws other numbers in a worker than without workers. Starting workers draws one
too: with persistent workers, epochs after the first are shuffled otherwise.
"""

from __future__ import annotations

import inspect
import multiprocessing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..dataloader import loaders as datasets
from ..dataloader.loaders import start_method
from ..hooks.call_site import CallSite
from ..hooks.watch import put_around
from .request import Outcome, Request, wanted

if TYPE_CHECKING:
    from ..recording.session import Session

NEEDS_WORKERS = ("persistent_workers", "prefetch_factor")
"""A loader without workers raises when it is given one of these."""

WORKER_SETTINGS = (*NEEDS_WORKERS, "multiprocessing_context", "timeout")
"""Arguments that require workers: without any, torch refuses them."""

CHANGEABLE = frozenset({"num_workers", "pin_memory", *NEEDS_WORKERS})
"""Arguments that may change: all others take part in which samples make a batch."""


class Overrides:
    """Overrides of DataLoader arguments, bound to the calls they name."""

    def __init__(
        self, torch: Any, initialise: Callable[..., None], requests: list[Request]
    ) -> None:
        self._torch = torch
        self._signature = inspect.signature(initialise)
        self._requests = requests

    def begin(
        self, session: Session, loader: Any, args: Any, kwargs: Any, site: CallSite | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The loader's arguments with overrides applied; remembers where the loader is made."""
        args, kwargs, outcome = self.apply(site, loader, args, kwargs)
        session.loaders.origins[loader] = site, outcome
        return args, kwargs

    def end(self, session: Session, loader: Any) -> None:
        """Report the outcome of each override that is meant for the loader."""
        site, outcome = session.loaders.origins.get(loader, (None, None))
        if outcome is not None:
            outcome.report(session.overrides, site, lambda name: getattr(loader, name, None))

    def apply(
        self, site: CallSite | None, loader: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], Outcome]:
        """The call's arguments with overrides applied, and the outcome of all requests.

        Arguments that do not fit the constructor are left for it to complain about.
        """
        try:
            bound = self._signature.bind(loader, *args, **kwargs).arguments
        except TypeError:
            return args, kwargs, Outcome({}, [])
        kinds = (bool, int, float, str, type(None))
        plain = {name: value for name, value in bound.items() if isinstance(value, kinds)}
        outcome = Outcome(plain, wanted(self._requests, site))
        outcome.decide(bound, self._why_not, lambda name, _: name != "num_workers")
        if not outcome.applied:
            return args, kwargs, outcome
        # Every argument of the constructor after the loader itself may be given by name.
        arguments = {**bound, **outcome.applied}
        del arguments[next(iter(self._signature.parameters))]
        if outcome.applied.get("num_workers") == 0:
            off = {name for name in WORKER_SETTINGS if arguments.get(name)}
            arguments = {name: value for name, value in arguments.items() if name not in off}
        return (), arguments, outcome

    def _why_not(self, name: str, value: Any, bound: dict[str, Any]) -> str | None:
        if name not in CHANGEABLE:
            return "changes the training data"
        if name not in self._signature.parameters:
            return "this version of torch does not have it"
        if name == "num_workers":
            return self._why_not_workers(value, bound)
        if name in NEEDS_WORKERS and not bound.get("num_workers"):
            return "the loader has no workers"
        if name == "prefetch_factor" and (type(value) is not int or value < 1):
            return f"{value!r} is not a number of batches"
        if name == "pin_memory" and value and not self._torch.cuda.is_available():
            return "there is no GPU to copy to"
        return None

    def _why_not_workers(self, workers: Any, bound: dict[str, Any]) -> str | None:
        if type(workers) is not int or workers < 0:
            return f"{workers!r} is not a number of workers"
        if workers == 0:
            return self._why_not_without(bound)
        if multiprocessing.current_process().daemon:
            return "this process cannot have child processes"
        return self._why_not_in_workers(bound)

    def _why_not_without(self, bound: dict[str, Any]) -> str | None:
        if not bound.get("num_workers"):
            return None
        if datasets.is_iterable_style(self._torch, bound.get("dataset")):
            return "the samples of an iterable dataset would come in another order"
        if bound.get("worker_init_fn") is not None:
            return "worker_init_fn, which may set up the dataset, would not be called"
        return None

    def _why_not_in_workers(self, bound: dict[str, Any]) -> str | None:
        data = bound.get("dataset")
        iterable = datasets.is_iterable_style(self._torch, data)
        if iterable and not (datasets.shards_itself(data) or bound.get("worker_init_fn")):
            return (
                "the iterable dataset does not shard itself: each worker would yield every sample"
            )
        if datasets.holds_handles(data):
            return "the dataset holds open files or generators, which workers would share"
        if datasets.holds_cuda_tensors(self._torch, data):
            return "the dataset holds tensors on the GPU"
        if start_method(bound.get("multiprocessing_context")) != "fork":
            objects = (data.__class__, bound.get("collate_fn"), bound.get("worker_init_fn"))
            if any(datasets.is_local(thing) for thing in objects):
                return "a lambda or local class cannot be sent to workers that are spawned"
        return None


def watch(torch: Any, session: Session, requests: list[Request]) -> None:
    """Remember the call and the overrides of each loader, and apply the overrides."""
    loader_class = torch.utils.data.DataLoader
    original = loader_class.__init__
    overrides = Overrides(torch, original, requests)

    def enter(args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        loader, *others = args
        passed, kwargs = session.construct(overrides.begin, loader, tuple(others), kwargs or {})
        return (loader, *passed), kwargs

    def leave(args: Any, _: Any, __: Any, arrived: bool) -> None:
        if arrived:
            session.constructed(overrides.end, args[0])

    loader_class.__init__ = put_around(torch, original, enter, leave if requests else None)
