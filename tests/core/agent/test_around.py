"""What stands around a function tells who is to be told, and nobody else sees it."""

import copy
import gc
import inspect
import os
import pickle
import pydoc
import sys
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.agent.hooks.watch import put_around
from perftui.agent.native import IS_COMPILED, CompiledAround, CompiledFastPath
from perftui.wire.ring import BACKWARD

TORCH = SimpleNamespace(_C=SimpleNamespace(_dynamo=SimpleNamespace(eval_frame=None)))

WAYS = (
    "plain",
    pytest.param(
        "compiled", marks=pytest.mark.skipif(not IS_COMPILED, reason="it is not compiled here")
    ),
)
compiled = pytest.mark.parametrize("way", WAYS[1:], indirect=True)


@pytest.fixture(params=WAYS, autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """In which of the two ways it is done."""
    monkeypatch.setattr("perftui.agent.hooks.watch.IS_COMPILED", request.param == "compiled")
    return str(request.param)


def add(first: int, /, *others: int, scale: int = 1, **named: int) -> int:
    """Some of all."""
    return scale * (first + sum(others) + sum(named.values()))


class Gate:
    """As much of a fast path as is used in Python."""

    def __init__(self) -> None:
        self.inside = self.is_off = self.goes_back = False


def fast_path() -> Any:
    """One that nothing goes on in."""
    return CompiledFastPath() if IS_COMPILED else Gate()


class Listener:
    """Writes down what it is told."""

    def __init__(self, token: object = 7) -> None:
        self.token = token
        self.heard: list[Any] = []

    def enter(self, args: Any, named: Any) -> object:
        self.heard.append(("enter", args, named or {}))
        return self.token

    def leave(self, args: Any, token: object, result: object, arrived: bool) -> None:
        self.heard.append(("leave", args, token, result, arrived))


names = st.sampled_from(["scale", "a", "b"])
numbers = st.integers(-9, 9)


@given(st.lists(numbers, min_size=1), st.dictionaries(names, numbers))
def test_arguments_and_results_are_those_of_the_original(
    args: list[int], named: dict[str, int]
) -> None:
    told = Listener()
    around = put_around(TORCH, add, told.enter, told.leave)

    result = around(*args, **named)
    assert result == add(*args, **named)
    given_ = tuple(args)
    assert told.heard == [("enter", given_, named), ("leave", given_, 7, result, True)]


def test_the_end_need_not_be_reported_and_arguments_may_be_others_than_those_given() -> None:
    told = Listener(token=None)
    around = put_around(TORCH, add, told.enter, told.leave)
    assert around(1, 2, scale=3) == 9
    assert [one[0] for one in told.heard] == ["enter"]
    assert put_around(TORCH, add, lambda *_: True)(1, 2) == 3

    around = put_around(TORCH, add, lambda args, named: ((*args, 5), {**named, "scale": 10}))
    assert around(1, 2, more=3) == 110


def test_the_original_says_what_is_missing() -> None:
    told = Listener()
    around = put_around(TORCH, add, told.enter, told.leave)
    with pytest.raises(TypeError) as ours:
        around(scale=3)
    with pytest.raises(TypeError) as plain:
        add(scale=3)  # type: ignore[call-arg]

    assert str(ours.value) == str(plain.value)
    assert told.heard == []


def test_what_ends_it_passes_through_as_it_is(way: str) -> None:
    error = ValueError("a bad item")

    def fail(_: object) -> None:
        raise error

    told = Listener()
    around = put_around(TORCH, fail, told.enter, told.leave)
    with pytest.raises(ValueError, match="a bad item") as raised:
        around(1)

    assert raised.value is error
    assert error.__context__ is None
    assert told.heard[-1] == ("leave", (1,), 7, None, False)
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    ours = ["call"] if way == "plain" else []
    assert frames == ["test_what_ends_it_passes_through_as_it_is", *ours, "fail"]


def test_the_end_of_an_iterator_is_that_of_a_loop() -> None:
    class Three:
        at = 0

        def __iter__(self) -> Iterator[int]:
            return self

        def __next__(self) -> int:
            if self.at == 3:
                raise StopIteration
            self.at += 1
            return self.at

    told = Listener()
    Three.__next__ = put_around(TORCH, Three.__next__, told.enter, told.leave)  # type: ignore[method-assign]

    assert list(Three()) == [1, 2, 3]
    assert [one[-1] for one in told.heard if one[0] == "leave"] == [True, True, True, False]


def chain(error: BaseException | None) -> list[str]:
    """It, and what each was raised in the handling of."""
    found: list[str] = []
    while error is not None and len(found) < 9:
        found.append(repr(error))
        error = error.__context__
    return found


def through_finally(original: Callable[[int], int], leave: Callable[[], None]) -> None:
    """What Python does."""
    try:
        original(1)
    finally:
        leave()


@pytest.mark.parametrize("handles", [False, True])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_what_is_raised_at_the_end_is_reported_as_of_a_finally(
    handles: bool, fails: bool, nested: bool
) -> None:
    def original(number: int) -> int:
        if fails:
            raise ValueError(number)
        return number

    def leave() -> None:
        if nested:
            try:
                raise KeyError("in the handler")
            except KeyError:
                raise KeyboardInterrupt from None
        raise KeyboardInterrupt

    def outcome(call: Callable[[], object]) -> list[str]:
        try:
            if handles:
                try:
                    raise OSError("of the script")
                except OSError:
                    call()
            else:
                call()
        except KeyboardInterrupt as error:
            return chain(error)
        return []

    around = put_around(TORCH, original, lambda *_: 1, lambda *_: leave())
    expected = outcome(lambda: through_finally(original, leave))
    assert len(expected) == 1 + handles + fails + nested
    assert outcome(lambda: around(1)) == expected


@pytest.mark.parametrize("insists", [False, True])
@pytest.mark.parametrize("times", [1, 2])
def test_who_insists_is_notified_of_an_end_again_where_a_handler_raised(
    insists: bool, times: int
) -> None:
    heard: list[tuple[object, bool]] = []

    def leave(_: Any, __: object, result: object, arrived: bool) -> None:
        heard.append((result, arrived))
        if len(heard) <= times:
            raise KeyboardInterrupt(len(heard))

    around = put_around(TORCH, add, lambda *_: 1, leave, insists=insists)
    with pytest.raises(KeyboardInterrupt) as raised:
        around(4)

    assert heard == [(4, True), (None, False)][: 1 + insists]
    again = ["KeyboardInterrupt(2)"] if insists and times == 2 else []
    assert chain(raised.value) == [*again, "KeyboardInterrupt(1)"]


@pytest.mark.parametrize("phase", [None, BACKWARD])
def test_a_phase_lets_all_pass_within_it_however_it_ends(phase: int | None) -> None:
    ours, told = fast_path(), Listener()
    seen: list[tuple[bool, bool]] = []

    def original(depth: int) -> None:
        seen.append((ours.inside, ours.goes_back))
        if depth:
            around(depth - 1)
        else:
            raise ValueError(depth)

    around = put_around(TORCH, original, told.enter, told.leave, fast_path=ours, phase=phase)
    with pytest.raises(ValueError, match="0"):
        around(2)

    assert seen == [(True, phase == BACKWARD)] * 3
    assert told.heard == [("enter", (2,), {}), ("leave", (2,), 7, None, False)]
    assert (ours.inside, ours.goes_back) == (False, False)


def test_recording_that_ends_within_a_phase_lets_all_pass_after_it() -> None:
    ours, told = fast_path(), Listener()

    def original(_: int) -> None:
        ours.is_off = ours.inside = True

    around = put_around(TORCH, original, told.enter, told.leave, fast_path=ours)
    around(1)
    assert ours.inside
    around(2)
    assert len(told.heard) == 2


@compiled
@pytest.mark.parametrize("phase", [None, BACKWARD])
@pytest.mark.parametrize("knows", [False, True])
@pytest.mark.parametrize("arrives", [False, True])
def test_the_fast_path_is_asked_first(phase: int | None, knows: bool, arrives: bool) -> None:
    told, heard = Listener(token=50), list[tuple[object, ...]]()

    def enter(*args: object) -> int:
        heard.append(args)
        return 40 if knows else 0

    def leave(*args: object) -> bool:
        heard.append(args)
        return knows

    def original(_: object) -> str:
        if not arrives:
            raise StopIteration
        return "batch"

    around = put_around(
        TORCH,
        original,
        told.enter,
        told.leave,
        fast_path=fast_path(),
        fast=(enter, leave),
        phase=phase,
    )
    try:
        around("it")
    except StopIteration:
        assert not arrives

    token = 40 if knows else 50
    begun = () if phase else ("it",)
    # A pass has ended however it did; that no batch came has to be seen by all.
    ended = [(phase or "it", token)] if arrives or phase else []
    assert heard == [begun, *ended]
    parts = ("leave", ("it",), token, "batch" if arrives else None, arrives)
    if not knows:
        assert told.heard == [("enter", ("it",), {}), parts]
    else:
        assert told.heard == ([] if ended else [parts])


@compiled
def test_an_error_of_the_fast_path_ends_the_call() -> None:
    told, calls = Listener(), list[int]()

    def fail(*_: object) -> int:
        raise KeyboardInterrupt

    for fast in ((fail, bool), (int.__abs__, fail)):
        around = put_around(
            TORCH, calls.append, told.enter, told.leave, fast_path=fast_path(), fast=fast
        )
        with pytest.raises(KeyboardInterrupt):
            around(1)
    assert calls == [1]
    assert told.heard == []


def loading(first: int, second: int = 2, *, third: int = 3) -> int:
    """What is loaded."""
    return first + second + third


def stepping(first: int, *others: int) -> int:
    """One after the other."""
    return first + len(others)


def dressed(original: Any) -> Any:
    told = Listener()
    return put_around(TORCH, original, told.enter, told.leave)


@pytest.mark.parametrize("original", [loading, stepping])
def test_it_looks_like_the_original(
    original: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    around = dressed(original)
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__"):
        assert getattr(around, name) == getattr(original, name)
    assert around.__wrapped__ is inspect.unwrap(around) is original
    assert inspect.signature(around) == inspect.signature(original)
    assert inspect.getsource(around) == inspect.getsource(original)
    assert inspect.isfunction(around) == (way == "plain" or original is stepping)
    assert inspect.isroutine(around)
    assert callable(around)
    assert weakref.ref(around)() is around
    around.mark = 3
    assert around.__dict__["mark"] == 3
    with pytest.raises(AttributeError, match="no_such"):
        _ = around.no_such
    if way == "compiled":
        assert repr(around) == repr(original)
        assert around.__code__ is original.__code__
        assert inspect.getsourcefile(inspect.unwrap(around)) == __file__

    # Where its name leads to it, as where torch's leads to ours.
    plain, text = pickle.dumps(original), pydoc.render_doc(original)
    # The first line names the class.
    kept = 0 if inspect.isfunction(around) else 1
    monkeypatch.setattr(sys.modules[__name__], original.__name__, around)
    assert pickle.dumps(around) == plain
    assert pickle.loads(plain) is around  # noqa: S301 - made above
    assert copy.copy(around) is copy.deepcopy(around) is around
    assert pydoc.render_doc(around).splitlines()[kept:] == text.splitlines()[kept:]


def test_what_refers_to_more_does_not_pose_as_a_function() -> None:
    text = "captured"
    for original in (loading, lambda _: text):
        around = dressed(original)
        assert inspect.isfunction(around) == (not isinstance(around, CompiledAround or ()))
        assert inspect.signature(around) == inspect.signature(original)
        assert around(4) == original(4)


def test_objects_that_are_called_are_not_looked_into() -> None:
    class Collate:
        def __call__(self, items: list[int]) -> int:
            return len(items)

        def __getattr__(self, name: str) -> object:
            raise OSError(f"{name} is loaded")

    told = Listener()
    assert put_around(TORCH, Collate(), told.enter)([1, 2]) == 2
    assert told.heard == [("enter", ([1, 2],), {})]


def test_it_is_a_method_as_the_original_is() -> None:
    class Base:
        def __init__(self, value: int) -> None:
            self.value = value

        def __len__(self) -> int:
            return self.value

        def get(self, more: int = 0) -> int:
            return self.value + more

    plain, signature = pydoc.render_doc(Base), inspect.signature(Base)
    for name in ("__init__", "__len__", "get"):
        setattr(Base, name, dressed(vars(Base)[name]))

    class Derived(Base):
        def __init__(self, value: int) -> None:
            super().__init__(value + 1)

    one = Derived(3)
    assert (len(one), one.get(), one.get(more=2), Base.get(one, 3)) == (4, 4, 6, 7)
    bound = one.get
    assert (bound.__self__, bound.__func__, bound()) == (one, vars(Base)["get"], 4)
    assert str(inspect.signature(bound)) == "(more: int = 0) -> int"
    assert inspect.signature(Base) == signature
    assert inspect.ismethod(bound)
    assert pydoc.render_doc(Base) == plain


def warn(level: int) -> None:
    """As functions do that warn in the name of their caller."""
    warnings.warn("of the caller", stacklevel=level)


@compiled
def test_a_warning_names_the_caller() -> None:
    told = Listener()
    around = put_around(TORCH, warn, told.enter, told.leave)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for call in (warn, around):
            for level in (1, 2, 3):
                call(level)

    places = [(one.filename, one.lineno) for one in caught]
    assert places[:3] == places[3:]
    assert len(set(places)) == 3


def test_nothing_is_kept_of_a_hundred_thousand_calls() -> None:
    class Thing:
        pass

    def original(thing: Thing, fails: bool = False) -> Thing:
        if fails:
            raise ValueError
        return thing

    def enter(args: Any, _: Any) -> object:
        return None if len(args) == 3 else ((args[0],), {}) if len(args) == 4 else 1000

    around = put_around(
        TORCH, original, enter, lambda *_: None, fast_path=fast_path(), insists=True
    )
    around(thing := Thing())
    watched: tuple[object, ...] = (thing, original, around, enter, 1000, None, True)
    gc.collect()
    before = [sys.getrefcount(one) for one in watched], len(gc.get_objects())
    for number in range(25_000):
        around(thing)
        around(thing, fails=False)
        around(thing, 1, 2, 3)
        if number % 5 == 0:
            for args in ((thing, True), (thing, True, 3), ()):
                with suppress(ValueError, TypeError):
                    around(*args)
    gc.collect()
    after = [sys.getrefcount(one) for one in watched], len(gc.get_objects())
    grown = [now - then for now, then in zip(after[0], before[0], strict=True)]
    assert max(grown, key=abs) < 50
    assert after[1] - before[1] < 50


def test_it_is_collected_with_what_it_refers_to() -> None:
    class Owner:
        around: Any

        def enter(self, *_: object) -> int:
            return 1

    owner = Owner()
    owner.around = put_around(TORCH, lambda _, kept=owner: kept, owner.enter, lambda *_: None)
    assert owner.around(1) is owner
    gone = [weakref.ref(owner), weakref.ref(owner.around)]
    del owner
    gc.collect()
    assert [one() for one in gone] == [None, None]


def test_it_may_go_while_it_is_called() -> None:
    class Iterator_:  # noqa: N801
        def __next__(self) -> int:
            Iterator_.__next__ = lambda _: 2  # type: ignore[method-assign]
            gc.collect()
            return 1

    Iterator_.__next__ = dressed(Iterator_.__next__)  # type: ignore[method-assign]
    it: Any = Iterator_()
    assert [next(it), next(it)] == [1, 2]


def test_several_threads_call_it_at_once() -> None:
    told, results = Listener(), list[int]()
    around = put_around(TORCH, add, told.enter, told.leave)

    def work(number: int) -> None:
        results.extend(around(number, step) for step in range(500))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(n + step for n in range(4) for step in range(500))
    assert len(told.heard) == 4 * 2 * 500


def test_a_child_forked_within_goes_its_own_way() -> None:
    ours, told = fast_path(), Listener()
    parent = os.getpid()

    def original(_: int) -> int:
        child = os.fork()
        if child == 0:
            # As what the agent does in a child.
            ours.inside = False
        return child

    child = put_around(TORCH, original, told.enter, told.leave, fast_path=ours)(1)
    is_whole = [one[0] for one in told.heard] == ["enter", "leave"] and not ours.inside
    if os.getpid() != parent:
        os._exit(0 if is_whole and child == 0 else 1)
    assert is_whole
    assert os.waitpid(child, 0)[1] == 0
