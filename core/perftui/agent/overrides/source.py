"""Reports whether the patch of a trial was run in place of the file (see ``patched_main``)."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from .request import Request

if TYPE_CHECKING:
    from ..recording.session import Session


def watch(_: Any, session: Session, requests: list[Request]) -> None:
    """Note each patch as applied once its file is run; none is where it is not run here."""
    patched = sys.modules.get("_perftui_patched")
    if patched is None or not requests:
        return
    wanted = {os.path.realpath(one.file or ""): one for one in requests}

    def ran(path: str) -> None:
        request = wanted.get(path)
        if request is not None:
            session.overrides.report(request.note({}, request.arguments))

    for path in patched.ran:
        ran(path)
    patched.listeners.append(ran)
