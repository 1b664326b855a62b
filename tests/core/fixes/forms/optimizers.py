"""Optimizers, and functions of torch that set a switch."""

from __future__ import annotations

from tests.core.fixes.forms.form import Form

OPTIMIZERS = (
    Form(
        "Adam by its module",
        "fused",
        "import torch.optim as optim\nopt = optim.Adam(net.parameters(), lr=1e-3)  # here\n",
        ("opt = optim.Adam(net.parameters(), lr=1e-3, fused=True)",),
    ),
    Form(
        "SGD with groups over several lines",
        "fused",
        """
        import torch
        opt = torch.optim.SGD(  # here
            [
                {"params": net.body.parameters()},
                {"params": net.head.parameters(), "lr": 1e-2},
            ],
            lr=1e-3, momentum=0.9,
        )
        """,
        ("lr=1e-3, momentum=0.9, fused=True,",),
    ),
    Form(
        "one optimizer for each model",
        "fused",
        """
        from torch.optim import AdamW
        optimizers = [AdamW(net.parameters(), lr=1e-3) for net in nets]  # here
        """,
        ("optimizers = [AdamW(net.parameters(), lr=1e-3, fused=True) for net in nets]",),
    ),
    Form(
        "an embedding with sparse gradients",
        "fused",
        """
        import torch
        words = torch.nn.Embedding(9, 3, sparse=True)
        opt = torch.optim.SGD(words.parameters(), lr=1e-3)  # here
        """,
        refused="gradients are sparse at line 2",
    ),
    Form(
        "threads",
        "threads",
        "import torch\ntorch.set_num_threads(1)  # here\n",
        ("torch.set_num_threads(2)",),
    ),
    Form(
        "threads that are computed",
        "threads",
        "import os, torch\ntorch.set_num_threads(os.cpu_count() // 2)  # here\n",
        refused="is computed",
    ),
    Form(
        "anomaly detection",
        "anomaly",
        "import torch\ntorch.autograd.set_detect_anomaly(True)  # here\n",
        ("torch.autograd.set_detect_anomaly(False)",),
    ),
    Form(
        "anomaly detection by an option",
        "anomaly",
        """
        import argparse, torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--debug", action="store_true", default=True)
        args = parser.parse_args()
        torch.autograd.set_detect_anomaly(args.debug)  # here
        """,
        ('parser.add_argument("--debug", action="store_true", default=False)',),
    ),
    Form(
        "one compilation for all sizes",
        "compile",
        "import torch\nnet = torch.compile(net, mode='default')  # here\n",
        ("net = torch.compile(net, mode='default', dynamic=True)",),
    ),
    Form(
        "compiled by a decorator",
        "compile",
        "import torch\n@torch.compile  # here\ndef f(x):\n    return x\n",
        refused="does not call torch.compile",
    ),
    Form(
        "activations computed twice",
        "recompute",
        """
        from torch.utils.checkpoint import checkpoint
        class Net(Module):
            def forward(self, x):
                for block in self.blocks:
                    x = checkpoint(block, x, self.mask, use_reentrant=False)  # here
                return x
        """,
        ("x = block(x, self.mask)",),
    ),
    Form(
        "a checkpoint with a comment within",
        "recompute",
        """
        from torch.utils.checkpoint import checkpoint
        x = checkpoint(  # here
            block,
            x,  # the residual
            use_reentrant=False,
        )
        """,
        refused="there is a comment inside the call",
    ),
)
