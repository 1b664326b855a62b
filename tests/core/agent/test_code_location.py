"""Code that seems to be at the place of other code is told of by Python as that would be."""

import linecache
import traceback
import warnings
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.agent.hooks.watch import with_location_of

METHODS = ("_fast_impl", "_impl")

THEIRS = """def dispatch(self, *args, **kwargs):
    if self._fast_impl is not None:
        return self._fast_impl(*args, **kwargs)
    else:
        return (  # in several lines
            self._impl(*args, **kwargs)
        )
"""


def ours(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Has more to do."""
    if not kwargs.pop("listens", True):
        if self._fast_impl is not None:
            return self._fast_impl(*args, **kwargs)
        return self._impl(*args, **kwargs)
    try:
        if self._fast_impl is not None:
            return self._fast_impl(*args, **kwargs)
        return self._impl(*args, **kwargs)
    finally:
        self.ended()


class Module:
    """What is called fails, or warns in the name of the line that called it."""

    _fast_impl: Any = None

    def _impl(self, fails: bool) -> None:
        if fails:
            raise ValueError("no")
        warnings.warn("of the caller", stacklevel=2)

    def ended(self) -> None:
        """Nothing is left to do."""


class Fast(Module):
    def _fast_impl(self, fails: bool) -> None:
        self._impl(fails)


def theirs(begins: int) -> Any:
    """Their function, in a file of its own from line ``begins`` on."""
    name = f"theirs-{begins}.py"
    text = "\n" * (begins - 1) + THEIRS
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {}
    exec(compile(text, name, "exec"), space)  # noqa: S102 - the text is above
    return space["dispatch"]


@pytest.fixture(autouse=True)
def as_found() -> Iterator[None]:
    """No text is kept for files that are not."""
    yield
    for name in [name for name in linecache.cache if name.startswith("theirs-")]:
        del linecache.cache[name]


def running(code: CodeType) -> Callable[..., Any]:
    return FunctionType(code, globals())


def told(call: Callable[..., Any], module: Module, **named: bool) -> list[str]:
    """What Python writes of a failure and of a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(module, False, **named)
    found = [f"{one.filename}:{one.lineno}" for one in caught]
    try:
        call(module, True, **named)
    except ValueError as error:
        # The first is the line here.
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        found += traceback.format_exception(error)
    return found


@given(begins=st.sampled_from([1, 2, 60, 130, 1774, 40_000]), is_fast=st.booleans())
def test_warnings_and_tracebacks_name_the_other_place(begins: int, is_fast: bool) -> None:
    like, module = theirs(begins), (Fast if is_fast else Module)()
    call = running(with_location_of(ours.__code__, like.__code__, METHODS))

    expected = told(like, module)
    assert f"theirs-{begins}.py" in "".join(expected)
    for listens in (True, False):
        assert told(call, module, listens=listens) == expected


def test_what_only_ours_does_is_where_theirs_begins() -> None:
    class Broken(Module):
        def ended(self) -> None:
            raise KeyboardInterrupt

    call = running(with_location_of(ours.__code__, theirs(700).__code__, METHODS))
    with pytest.raises(KeyboardInterrupt) as raised, pytest.warns(UserWarning, match="caller"):
        call(Broken(), False)

    places = [(one.filename, one.lineno) for one in traceback.extract_tb(raised.tb)]
    assert places[1] == ("theirs-700.py", 700)
    assert len(places) == 3
