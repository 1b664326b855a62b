"""Data loaders: workers, pinned memory, workers that stay."""

from __future__ import annotations

from tests.core.fixes.forms.form import Form

_PARSED = """
import argparse
from torch.utils.data import DataLoader
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
args = parser.parse_args()
"""

LOADERS = (
    Form(
        "the shortest call",
        "workers",
        """
        from torch.utils.data import DataLoader
        loader = DataLoader(data, batch_size=32, shuffle=True)  # here
        """,
        (
            "loader = DataLoader(data, batch_size=32, shuffle=True, "
            "num_workers=3, persistent_workers=True)",
        ),
    ),
    Form(
        "one argument a line with comments",
        "workers",
        """
        import torch
        loader = torch.utils.data.DataLoader(  # here
            data,  # all of it
            batch_size=64,  # fits 8 GB
            shuffle=True,
        )
        """,
        ("num_workers=3,", "persistent_workers=True,"),
    ),
    Form(
        "a default of the command line",
        "workers",
        _PARSED + "loader = DataLoader(data, num_workers=args.workers)  # here\n",
        (
            'parser.add_argument("--workers", type=int, default=3)',
            "loader = DataLoader(data, num_workers=args.workers, "
            "persistent_workers=args.workers > 0)",
        ),
    ),
    Form(
        "a default that is printed with all others",
        "workers",
        _PARSED
        + "print(vars(args))\nloader = DataLoader(data, num_workers=args.workers)  # here\n",
        (
            'parser.add_argument("--workers", type=int, default=3)',
            "loader = DataLoader(data, num_workers=args.workers, "
            "persistent_workers=args.workers > 0)",
        ),
    ),
    Form(
        "a default that a function returns",
        "workers",
        """
        import argparse
        from torch.utils.data import DataLoader
        def parse_option():
            parser = argparse.ArgumentParser()
            parser.add_argument("--num_workers", type=int, default=0)
            opt = parser.parse_args()
            return opt
        def main():
            opt = parse_option()
            loader = DataLoader(data, num_workers=opt.num_workers)  # here
        """,
        (
            'parser.add_argument("--num_workers", type=int, default=3)',
            "loader = DataLoader(data, num_workers=opt.num_workers, "
            "persistent_workers=opt.num_workers > 0)",
        ),
    ),
    Form(
        "a default divided by the ranks",
        "workers",
        _PARSED
        + "args.workers = args.workers // 2\n"
        + "loader = DataLoader(data, num_workers=args.workers)  # here\n",
        refused="set elsewhere",
    ),
    Form(
        "options updated from a file",
        "workers",
        _PARSED
        + "vars(args).update(load())\n"
        + "loader = DataLoader(data, num_workers=args.workers)  # here\n",
        refused="set elsewhere",
    ),
    Form(
        "a dict that both loaders unpack",
        "workers",
        """
        from torch.utils.data import DataLoader
        both = dict(batch_size=4, num_workers=0)
        train = DataLoader(a, shuffle=True, **both)  # here
        valid = DataLoader(b, **both)
        """,
        ("both = dict(batch_size=4, num_workers=3)",),
    ),
    Form(
        "a dict for a GPU that the run had",
        "workers",
        """
        import torch
        kwargs = {"num_workers": 1, "pin_memory": True} if cuda else {}
        train = torch.utils.data.DataLoader(a, batch_size=4, **kwargs)  # here
        """,
        ('kwargs = {"num_workers": 3, "pin_memory": True} if cuda else {}',),
        had=1,
    ),
    Form(
        "a dict for a GPU that the run did not have",
        "workers",
        """
        import torch
        kwargs = {"num_workers": 1, "pin_memory": True} if cuda else {}
        train = torch.utils.data.DataLoader(a, batch_size=4, **kwargs)  # here
        """,
        refused="may come from **kwargs",
        had=0,
    ),
    Form(
        "a loader for each split",
        "workers",
        """
        import torch
        loaders = {
            name: torch.utils.data.DataLoader(sets[name], batch_size=4, num_workers=0)  # here
            for name in ["train", "val"]
        }
        """,
        (
            "name: torch.utils.data.DataLoader(sets[name], batch_size=4, num_workers=3, "
            "persistent_workers=True)",
        ),
    ),
    Form(
        "a loader for each of many",
        "workers",
        """
        from torch.utils.data import DataLoader
        loaders = [DataLoader(data) for data in tasks]  # here
        """,
        refused="created in a loop",
    ),
    Form(
        "a loader made anew in each epoch",
        "workers",
        """
        from torch.utils.data import DataLoader
        for epoch in range(9):
            for x, y in DataLoader(data, batch_size=4):  # here
                TRAIN
        """,
        refused="created in a loop",
    ),
    Form(
        "a loader for each fold",
        "workers",
        """
        from torch.utils.data import DataLoader
        for fold in range(5):
            loader = DataLoader(parts[fold], batch_size=4)  # here
            for epoch in range(9):
                for x, y in loader:
                    TRAIN
        """,
        ("loader = DataLoader(parts[fold], batch_size=4, num_workers=3, persistent_workers=True)",),
    ),
    Form(
        "one batch only",
        "workers",
        "from torch.utils.data import DataLoader\n"
        "x, y = next(iter(DataLoader(data, 1000)))  # here\n",
        refused="one pass only",
    ),
    Form(
        "a parameter of a helper",
        "workers",
        """
        from torch.utils.data import DataLoader
        def loader_of(data, batch_size, workers=0):
            return DataLoader(data, batch_size, num_workers=workers)  # here
        train = loader_of(a, 32)
        """,
        (
            "def loader_of(data, batch_size, workers=3):",
            "return DataLoader(data, batch_size, num_workers=workers, "
            "persistent_workers=workers > 0)",
        ),
    ),
    Form(
        "a helper that other files call",
        "workers",
        """
        from torch.utils.data import DataLoader
        def loader_of(data, batch_size, workers=0):
            return DataLoader(data, batch_size, num_workers=workers)  # here
        """,
        refused="called in another file",
    ),
    Form(
        "an attribute of the trainer",
        "workers",
        """
        from torch.utils.data import DataLoader
        class Trainer:
            def __init__(self, data, workers=0):
                self.data = data
                self.workers = workers
            def loader(self):
                return DataLoader(self.data, num_workers=self.workers)  # here
        Trainer(data).loader()
        """,
        (
            "def __init__(self, data, workers=3):",
            "return DataLoader(self.data, num_workers=self.workers, "
            "persistent_workers=self.workers > 0)",
        ),
    ),
    Form(
        "a class of settings",
        "workers",
        """
        from torch.utils.data import DataLoader
        class Config:
            batch_size = 4
            workers = 0
        loader = DataLoader(data, Config.batch_size, num_workers=Config.workers)  # here
        """,
        (
            "workers = 3",
            "loader = DataLoader(data, Config.batch_size, num_workers=Config.workers, "
            "persistent_workers=Config.workers > 0)",
        ),
    ),
    Form(
        "the cores of the machine",
        "workers",
        """
        import os
        from torch.utils.data import DataLoader
        loader = DataLoader(data, num_workers=os.cpu_count())  # here
        """,
        refused="is computed",
    ),
    Form(
        "another package's loader",
        "workers",
        "from torch_geometric.loader import DataLoader\nloader = DataLoader(data)  # here\n",
        refused="may not be torch's DataLoader",
    ),
    Form(
        "pinned memory beside a flag",
        "pin",
        """
        import argparse
        from torch.utils.data import DataLoader
        parser = argparse.ArgumentParser()
        parser.add_argument("--pin", action="store_true")
        args = parser.parse_args()
        loader = DataLoader(data, pin_memory=args.pin)  # here
        """,
        ('parser.add_argument("--pin", action="store_true", default=True)',),
    ),
    Form(
        "pinned memory where there is a GPU",
        "pin",
        """
        import torch
        loader = torch.utils.data.DataLoader(data, pin_memory=torch.cuda.is_available())  # here
        """,
        refused="is computed",
    ),
    Form(
        "workers that are started in each epoch",
        "persistent",
        """
        from torch.utils.data import DataLoader
        loader = DataLoader(data, 4, True, num_workers=2)  # here
        """,
        ("loader = DataLoader(data, 4, True, num_workers=2, persistent_workers=True)",),
    ),
    Form(
        "workers that stay, without workers",
        "persistent",
        "from torch.utils.data import DataLoader\nloader = DataLoader(data)  # here\n",
        refused="no number of workers",
    ),
)
