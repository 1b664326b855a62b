"""No key without a test that presses it and sees what it does."""

from perftui_tui.keys.table import KEYS
from tests.tui.proof import proven


def test_every_key_has_a_test() -> None:
    known = {key.name for key in KEYS}
    found = proven()
    assert sorted(known - set(found)) == [], "mark their tests with pytest.mark.keys"
    assert sorted(set(found) - known) == [], "these marks name no action"
