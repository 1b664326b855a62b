"""DistributedDataParallel: micro-batches that are reduced once."""

import json
import subprocess
import sys
from textwrap import dedent

import pytest

from perftui.fixes.gradients import ddp_no_sync
from tests.core.fixes.test_line_changes import PLANTED, changed

CONDITION = """
import torch
from torch.nn.parallel import DistributedDataParallel
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 3)))
model.register_comm_hook(None, counted)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for epoch in range(2):
    for i in range(7):
        loss = model(torch.randn(4, 6)).square().mean() / 3
        loss.backward()  # here
        if (i + 1) % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
NESTED = CONDITION.partition("for epoch")[0] + dedent(
    """
    for step in range(4):
        optimizer.zero_grad()
        for _ in range(3):
            loss = model(torch.randn(4, 6)).square().mean() / 3
            loss.backward()  # here
        optimizer.step()
    """
)

RANKS = """
import json, os, sys
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

torch.set_num_threads(1)
rank = 1 if os.fork() == 0 else 0
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=2)
told = []
for text in json.load(sys.stdin) if not rank else [None] * 4:
    given = [text]
    dist.broadcast_object_list(given)
    reduced = []
    def counted(state, bucket):
        reduced.append(1)
        return allreduce_hook(state, bucket)
    names = {"rank": rank, "counted": counted}
    exec(given[0], names)
    told.append((len(reduced), [p.flatten().tolist() for p in names["model"].parameters()]))
if rank == 0:
    print(json.dumps(told))
dist.barrier()
dist.destroy_process_group()
os._exit(0) if rank else os.wait()
"""


@pytest.mark.slow
@pytest.mark.subprocess
def test_two_ranks_end_with_the_same_weights_and_reduce_once_a_step(tmp_path) -> None:
    torch = pytest.importorskip("torch")
    pairs = [(text, changed(ddp_no_sync.plan, text)) for text in (CONDITION, NESTED)]
    texts = [text for pair in pairs for text in pair]
    ended = subprocess.run(
        [sys.executable, "-c", RANKS, str(tmp_path / "store")],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    reduced = [count for count, _ in told]
    assert reduced == [14, 4, 12, 4]
    for (_, plain), (_, once) in (told[:2], told[2:]):
        for before, after in zip(plain, once, strict=True):
            torch.testing.assert_close(torch.tensor(before), torch.tensor(after))


def test_the_planted_training_is_mended() -> None:
    text = (PLANTED / "ddp_reduce_each_micro_batch.py").read_text()
    after = changed(ddp_no_sync.plan, text.replace("  # planted", "  # here"))
    assert "    for micro in range(accumulate):\n" in after
    assert "        model.require_backward_grad_sync = micro == accumulate - 1\n" in after
