"""Standing around a function of torch's, as ``around.c`` does it where that is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .around import Enter, Leave


def plain_around(
    original: Callable[..., Any],
    enter: Enter,
    leave: Leave | None,
    fast_path: Any,
    goes_back: bool,
    insists: bool,
) -> Callable[..., Any]:
    """What ``put_around`` makes, with a frame of its own, and without what is asked first."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if (fast_path is not None and fast_path.inside) or not args:
            return original(*args, **kwargs)
        token = enter(args, kwargs)
        if token is None:
            return original(*args, **kwargs)
        if isinstance(token, tuple):
            args, kwargs = token
        result, arrived = None, False
        try:
            if fast_path is not None:
                fast_path.inside, fast_path.goes_back = True, goes_back
            result = original(*args, **kwargs)
            arrived = True
            return result
        finally:
            if fast_path is not None:
                fast_path.inside, fast_path.goes_back = fast_path.is_off, False
            if leave is not None:
                try:
                    leave(args, token, result, arrived)
                except BaseException:
                    if insists:
                        leave(args, token, None, False)
                    raise

    return call
