"""Where a dataset says its data lies, told without asking the file system that holds it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perftui.agent.dataloader import loaders as datasets

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /mnt/data rw shared:2 - nfs4 server:/export rw
31 22 0:27 / /mnt/data\\040two rw shared:3 - fuse.gcsfuse bucket rw
"""


@pytest.fixture(autouse=True)
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mountinfo"
    file.write_text(MOUNTS)
    monkeypatch.setattr(datasets, "MOUNTS", file)


@pytest.mark.parametrize(
    ("attributes", "path", "mount", "kind"),
    [
        ({"size": 3, "root": "/mnt/data/train"}, "/mnt/data/train", "/mnt/data", "nfs4"),
        ({"files": [Path("/mnt/data two/a")]}, "/mnt/data two/a", "/mnt/data two", "fuse.gcsfuse"),
        ({"samples": [("/mnt/database/a", 1)]}, "/mnt/database/a", "/", "ext4"),
        ({"dataset": SimpleNamespace(where="/mnt/data")}, "/mnt/data", "/mnt/data", "nfs4"),
    ],
)
def test_the_mount_that_holds_the_data_is_named(
    attributes: dict[str, Any], path: str, mount: str, kind: str
) -> None:
    found = datasets.source_of(SimpleNamespace(**attributes))
    assert found == {"path": path, "mount": mount, "filesystem": kind}


def test_a_url_names_its_scheme() -> None:
    found = datasets.source_of(SimpleNamespace(urls=["s3://bucket/a"]))
    assert found == {"path": "s3://bucket/a", "filesystem": "s3"}


def test_a_relative_path_counts_by_the_name_of_its_attribute(tmp_path: Path) -> None:
    assert datasets.source_of(SimpleNamespace(name="train", split="a b")) == {}
    found = datasets.source_of(SimpleNamespace(data_dir="train"))
    assert found["path"] == str(Path.cwd() / "train")


def test_an_odd_dataset_tells_nothing() -> None:
    odd: list[Any] = []
    odd.append(odd)
    assert datasets.source_of(SimpleNamespace(files=odd)) == {}
    assert datasets.source_of(3) == {}
