"""Tries a training without gradients of the parameters that no optimizer holds.

Applies only to parameters that a backward pass fills and whose values stay the same between two
steps: others are trained by the script itself, or serve as inputs to differentiate by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..hooks.watch import watch_steps
from ..recording.model import all_modules, unused, wrappers
from ..safety.signal_handlers import attempt
from .request import Request, arguments_of

if TYPE_CHECKING:
    from ..recording.session import Session

LOOK_AFTER = 2
"""Steps of the first optimizer after which parameters are looked at; they are compared and let go
one step later."""


class Untrained:
    """Parameters that no longer get gradients."""

    def __init__(self, torch: Any, requests: list[Request]) -> None:
        self._torch = torch
        self._requests = requests
        self._first: int | None = None
        self._steps = 0
        self._seen: list[tuple[Any, Any]] = []
        """Parameters, each with a checksum of its values."""
        self.is_done = False

    def stepped(self, session: Session, optimizer: Any) -> None:
        """``optimizer`` has stepped, and no gradient has been cleared yet."""
        if self._first is None:
            self._first = id(optimizer)
        if self.is_done or id(optimizer) != self._first:
            return
        self._steps += 1
        if self._steps >= LOOK_AFTER:
            # Subclasses of tensors are the script's own code.
            with self._torch._C.DisableTorchFunction(), self._torch.no_grad():
                self._look(session)

    def _look(self, session: Session) -> None:
        modules = all_modules(session.called_modules())
        why = self._why_not(modules)
        if not why and self._steps == LOOK_AFTER:
            tensors = unused(modules, session.made_optimizers()).values()
            self._seen = [(tensor, self._value(tensor)) for tensor in tensors]
            if self._seen:
                return
            why = "every parameter with a gradient is in an optimizer"
        same = [parameter for parameter, before in self._seen if self._is_same(parameter, before)]
        if not why and not same:
            why = "the script changes these parameters itself"
        for parameter in () if why else same:
            parameter.requires_grad_(False)
            parameter.grad = None
        self.is_done, self._seen = True, []
        for request in self._requests:
            refused = dict.fromkeys(request.arguments, why) if why else {}
            session.overrides.report(request.note(refused, {"requires_grad": False}))

    def _why_not(self, modules: list[Any]) -> str:
        if arguments_of(self._requests) != {"requires_grad": False}:
            return "only requires_grad=False can be tried"
        kinds = wrappers(modules)
        # Wrappers wait for the gradients of all parameters that they were given.
        return f"{kinds[0]['name']} was made with these parameters" if kinds else ""

    def _value(self, parameter: Any) -> Any:
        return attempt(lambda: self._torch.sum(parameter.detach(), dtype=self._torch.float64))

    def _is_same(self, parameter: Any, before: Any) -> bool:
        now = self._value(parameter)
        if now is None or before is None or parameter.grad is None:
            return False
        return bool(now == before)


def watch(torch: Any, session: Session, requests: list[Request]) -> None:
    """Look at the parameters once the training is under way."""
    untrained = Untrained(torch, requests)

    def after(optimizer: Any, *_: Any) -> None:
        if not untrained.is_done:
            session.constructed(untrained.stepped, optimizer)

    watch_steps(torch, after=after)
