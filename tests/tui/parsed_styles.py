"""What apps have parsed of styles, kept for those that other tests open.

Each app parses the same styles anew, which took a fifteenth of opening one.
"""

from __future__ import annotations

from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

_parsed: dict[object, list[RuleSet]] = {}
_parse = Stylesheet._parse_rules


def _parse_once(
    self: Stylesheet,
    css: str,
    read_from: tuple[str, str],
    is_default_rules: bool = False,
    tie_breaker: int = 0,
    scope: str = "",
) -> list[RuleSet]:
    """As Textual's own; nobody changes the rules, which a sheet keeps for itself, too."""
    place = (css, read_from, is_default_rules, tie_breaker, scope)
    key = (place, frozenset(self._variables.items()))
    if key not in _parsed:
        _parsed[key] = _parse(self, *place)
    return _parsed[key]


def parse_once() -> None:
    """From now on, in this process."""
    Stylesheet._parse_rules = _parse_once  # type: ignore[method-assign]
