"""Planted: the author's own profiler, with stacks and shapes, is still around the loop.

rule: profiler-overhead
gain: 13.8
"""

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule


class Denoiser(nn.Module):
    def __init__(self, width=64, depth=6):
        super().__init__()
        self.time = nn.Embedding(100, width)
        self.enter = nn.Linear(32, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.leave = nn.Linear(width, 32)

    def forward(self, x, t):
        hidden = self.enter(x) + self.time(t)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            hidden = hidden + torch.nn.functional.silu(layer(norm(hidden)))
        return self.leave(hidden)


def main():
    torch.manual_seed(0)
    model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    alphas = torch.linspace(0.99, 0.01, 100)
    samples = torch.randn(64 * 40, 32)
    with profile(  # planted
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=12, warmup=1, active=3),
        record_shapes=True,
        with_stack=True,
        on_trace_ready=lambda finished: finished.key_averages(group_by_stack_n=5),  # planted
    ) as profiler:
        for epoch in range(6):
            for batch in samples.split(64):
                t = torch.randint(0, 100, (len(batch),))
                noise = torch.randn_like(batch)
                alpha = alphas[t, None]
                noisy = alpha.sqrt() * batch + (1 - alpha).sqrt() * noise
                loss = nn.functional.mse_loss(model(noisy, t), noise)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                profiler.step()  # planted
            print(f"epoch {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
