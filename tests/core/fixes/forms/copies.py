"""Loaders whose batches are pinned, and the copies of them that need not be waited for."""

from __future__ import annotations

from tests.core.fixes.forms.form import Form

_MADE = """
        from torch.utils.data import DataLoader
        loader = DataLoader(data, 32)  # here
"""
_PINNED = "loader = DataLoader(data, 32, pin_memory=True)"

COPIES = (
    Form(
        "both parts of a batch",
        "pin",
        f"""{_MADE}
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            TRAIN
        """,
        (
            _PINNED,
            "x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)",
        ),
    ),
    Form(
        "a dict of tensors behind a bar",
        "pin",
        f"""{_MADE}
        for i, batch in enumerate(tqdm(loader)):
            batch = {{k: v.cuda() for k, v in batch.items()}}
            loss = f(model(batch["x"]), batch["y"])
        """,
        (_PINNED, "batch = {k: v.cuda(non_blocking=True) for k, v in batch.items()}"),
    ),
    Form(
        "a bar by its name",
        "pin",
        f"""{_MADE}
        bar = tqdm(loader, total=9)
        for i, (x, y) in enumerate(bar):
            x = x.to(device)
        """,
        (_PINNED, "x = x.to(device, non_blocking=True)"),
    ),
    Form(
        "a function that is given the loader",
        "pin",
        """
        from torch.utils.data import DataLoader
        def train(model, batches):
            for batch in batches:
                x = batch["x"].to(f"cuda:{rank}")
                y = batch["y"].to(f"cuda:{rank}")
                TRAIN
        def main():
            loader = DataLoader(data, 32)  # here
            train(model, loader)
        """,
        (
            'x = batch["x"].to(f"cuda:{rank}", non_blocking=True)',
            'y = batch["y"].to(f"cuda:{rank}", non_blocking=True)',
            _PINNED,
        ),
    ),
    Form(
        "a batch that the host goes on to change",
        "pin",
        f"""{_MADE}
        for x in loader:
            inputs = x.to(device)
            x.clamp_(0, 1)
        """,
        (_PINNED,),
    ),
    Form(
        "what comes back from the GPU, what is new, and a move to the CPU",
        "pin",
        f"""{_MADE}
        for x, y in loader:
            x = model(x.cuda())
            x = x.to(other_device)
            noise = torch.rand(3).to(device)
            y = y.to("cpu")
        """,
        (_PINNED, "x = model(x.cuda(non_blocking=True))"),
    ),
    Form(
        "batches of a class of their own",
        "pin",
        """
        from torch.utils.data import DataLoader
        loader = DataLoader(data, 32, collate_fn=together)  # here
        for x in loader:
            x = x.to(device)
        """,
        ("loader = DataLoader(data, 32, collate_fn=together, pin_memory=True)",),
    ),
    Form(
        "copies under a condition",
        "pin",
        f"""{_MADE}
        for x in loader:
            if cuda:
                x = x.cuda()
        """,
        (_PINNED,),
    ),
)
