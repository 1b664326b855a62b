"""Planted: the script's own torch.profiler, with shapes, is open for the whole training.

rule: profiler-overhead
"""

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

torch.manual_seed(0)
torch.set_num_threads(1)

model = nn.Sequential(
    *(layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU())),
    nn.Linear(64, 10),
)


def handle(prof: profile) -> None:
    print(prof.step_num)


optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images, labels = torch.randn(4096, 64), torch.randint(0, 10, (4096,))
recorder = profile(  # planted
    activities=[ProfilerActivity.CPU],
    schedule=schedule(wait=1, warmup=1, active=20),
    on_trace_ready=handle,
    record_shapes=True,
)
with recorder:
    for _ in range(300):
        chosen = torch.randint(0, 4096, (64,))
        loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        recorder.step()  # planted
