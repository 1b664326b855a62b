"""Reads the overrides of the run, and passes each to its target."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...wire.spool import OVERRIDES_VARIABLE, decode
from . import data_loader, optimizer, switches
from .request import Request, request_of

if TYPE_CHECKING:
    from ..recording.session import Session


OTHERWISE = "a launcher in between has changed it"
"""The value itself may be a secret."""


def watch_source(_: Any, session: Session, requests: list[Request]) -> None:
    """Note each patch of a trial as applied once it runs in place of its file (see
    ``patched_main``); without ``patched_main`` there are no notes."""
    patched = sys.modules.get("_perftui_patched")
    if patched is None or not requests:
        return
    wanted = {os.path.realpath(request.file or ""): request for request in requests}

    def ran(path: str) -> None:
        request = wanted.get(path)
        if request is not None:
            session.overrides.report(request.note({}, request.arguments))

    for path in patched.ran:
        ran(path)
    patched.listeners.append(ran)


def check_environment(_: Any, session: Session, requests: list[Request]) -> None:
    """Report which variables of the environment still have the recorder's values."""
    for request in requests:
        texts = {
            name: None if value is None else str(value) for name, value in request.arguments.items()
        }
        lost = [name for name, text in texts.items() if os.environ.get(name) != text]
        values = {name: request.arguments[name] for name in texts if name not in lost}
        session.overrides.report(request.note(dict.fromkeys(lost, OTHERWISE), values))


def _imported_late(name: str) -> Callable[[Any, Session, list[Request]], None]:
    """Import on demand: few runs need it, and the start of the others is faster."""

    def watch(torch: Any, session: Session, requests: list[Request]) -> None:
        if requests:
            import_module(f".{name}", __package__).watch(torch, session, requests)

    return watch


TARGETS = {
    "DataLoader": data_loader.watch,
    "optimizer": optimizer.watch,
    "parameters": _imported_late("gradients"),
    "environment": check_environment,
    "isolate": _imported_late("isolate"),
    "source": watch_source,
    "switch": switches.watch,
}
"""Function for each target, which listens for it and applies the requests given."""


def watch(torch: Any, session: Session, requests: list[Request]) -> None:
    """Listen for every target; the notes of requests with an unknown target refuse them."""
    for target, listen in TARGETS.items():
        listen(torch, session, [request for request in requests if request.target == target])
    for request in requests:
        if request.target not in TARGETS:
            why = f"this version of perftui does not know the target {request.target}"
            refused = dict.fromkeys(request.arguments or (request.target,), why)
            session.overrides.report(request.note(refused, {}))


def read_overrides(environment: Mapping[str, str]) -> list[Request]:
    """The overrides of the run, as the recorder wrote them. Raises ValueError if the variable does
    not hold a JSON array."""
    entries = decode(environment.get(OVERRIDES_VARIABLE), list)
    read = (request_of(number, entry) for number, entry in enumerate(entries))
    return [request for request in read if request is not None]
