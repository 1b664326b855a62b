"""Flips switches between the script's way and the changed one while the training goes on.

Each flip is noted with its step, so that the steps of either way can be held against each other.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..hooks.compiler import break_graph
from . import switches
from .held_switch import HeldSwitch
from .request import Blocks, Request

if TYPE_CHECKING:
    from ..recording.session import Session


class Flips:
    """The switches ``held`` of one request, which steps of optimizers flip."""

    def __init__(
        self,
        torch: Any,
        request: Request,
        blocks: Blocks,
        held: list[HeldSwitch],
        refused: dict[str, str],
    ) -> None:
        self._torch = torch
        self._request = request
        self._blocks = blocks
        self._held = held
        self._refused = refused
        self._is_changed = False
        self._trained = 0
        self._step = -1
        """The newest step in which an optimizer has stepped."""

    def to(self, session: Session, *, is_changed: bool) -> None:
        """Let the switches be as they are in such a block."""
        if is_changed == self._is_changed:
            return
        self._is_changed = is_changed
        cuda = self._torch.cuda
        if cuda.is_initialized() and not cuda.is_current_stream_capturing():
            # What is queued belongs to the block before.
            cuda.synchronize()
        if is_changed:
            switches.change(session, self._request, self._held, self._refused)
        else:
            for one in self._held:
                one.give_back()

    def stepped(self, session: Session, _: Any) -> None:
        """An optimizer has stepped."""
        recording = session.recording
        if recording is None or recording.index == self._step:
            return
        self._step = recording.index
        self._trained += 1
        number = self._blocks.begins(self._trained)
        if number is not None:
            is_changed = self._blocks.is_changed(number)
            self.to(session, is_changed=is_changed)
            session.notes.write("block", {"step": self._step, "is_changed": is_changed})


def watch(
    torch: Any,
    session: Session,
    request: Request,
    blocks: Blocks,
    held: list[HeldSwitch],
    refused: dict[str, str],
) -> None:
    """Let the switches ``held`` flip with the steps of the training."""
    flips = Flips(torch, request, blocks, held, refused)
    flips.to(session, is_changed=blocks.begins_changed)

    def after(optimizer: Any, *_: Any) -> None:
        session.constructed(flips.stepped, optimizer)

    module = sys.modules[torch.optim.Optimizer.__module__]
    module.register_optimizer_step_post_hook(break_graph(torch, after))
