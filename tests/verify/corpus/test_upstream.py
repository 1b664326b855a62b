"""Real traces, against what other tools and their tests say of them.

Each value is met by our own tables, or follows from our columns by the other tool's definition
(which is then the explanation), or is about something that we do not show. Nothing is explained by
a tolerance."""

from typing import Any

import pytest

from tests.verify.corpus import (
    upstream_hta,
    upstream_tensorboard,
    upstream_tracelens,
    upstream_unit_tests,
)
from tests.verify.corpus.collection import expected, oracles
from tests.verify.corpus.opened import opened
from tests.verify.corpus.outcome import Account
from tests.verify.corpus.upstream_hta import frame

pytestmark = [pytest.mark.corpus, pytest.mark.slow]

TOOLS = (upstream_hta, upstream_tensorboard, upstream_tracelens, upstream_unit_tests)
ENTRIES = {tool: [entry for entry in expected() if tool.claims(entry)] for tool in TOOLS}
CASES = [
    pytest.param(tool, entry, id=f"{entry['trace']}-{entry['quantity'][:60]}")
    for tool, entries in ENTRIES.items()
    for entry in entries
]


@pytest.mark.parametrize(("tool", "entry"), CASES)
def test_follows_from_our_columns(tool: Any, entry: dict[str, Any], account: Account) -> None:
    account(entry, tool.judge(entry))


@pytest.mark.parametrize("name", oracles())
def test_without_disagreements_a_frame_is_our_tables(name: str) -> None:
    it, ours = opened(name), frame(name, frozenset())
    if not it.analysis.has_gpu:
        assert upstream_hta.temporal(ours) == {}
        return
    found = upstream_hta.temporal(ours)
    assert found["kernel_time(us)"] == pytest.approx(it.device.span / 1000)
    assert found["idle_time(us)"] == pytest.approx((it.device.span - it.device.busy.total) / 1000)
    assert found["compute_time(us)"] == pytest.approx(it.device.kernels.total / 1000)
