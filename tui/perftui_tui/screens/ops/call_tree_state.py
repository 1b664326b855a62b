"""What of the tree of calls is opened, and how keys change that."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.analysis.ops.call_paths import CallPaths, PathNode
from perftui_tui.screens.ops.call_rows import Path, Visible, top_path, tree_table, visible_nodes
from perftui_tui.tables.rows import TableData


class CallTreeState:
    """The tree as it is on screen. Nothing is opened by itself."""

    def __init__(self, paths: CallPaths) -> None:
        self.paths = paths
        self.opened: set[Path] = set()
        self.needle = ""
        self.shown: Sequence[Visible] = ()

    def table(self, ascii_only: bool) -> TableData:
        """The rows that are to be seen now."""
        self.shown = visible_nodes(self.paths, self.opened, self.needle)
        return tree_table(self.paths, self.shown, ascii_only, self.needle)

    def node(self, row: int | None) -> PathNode | None:
        """The node in a row of the table."""
        return None if row is None else self.shown[row].node

    def toggle(self, row: int) -> None:
        """Open a node, or close it."""
        shown = self.shown[row]
        if shown.is_open:
            self._close(shown.node.path)
        elif shown.node.calls_others:
            self.opened.add(shown.node.path)

    def right(self, row: int) -> int:
        """Open a node; from an open one to the first below it. Returns the row to go to."""
        shown = self.shown[row]
        if shown.node.calls_others and not shown.is_open:
            self.opened.add(shown.node.path)
            return row
        below = [place for place, each in enumerate(self.shown) if each.parent == row]
        return below[0] if below else row

    def left(self, row: int) -> int:
        """Close a node; from a closed one to the one above it. Returns the row to go to."""
        shown = self.shown[row]
        if shown.is_open and shown.node.path in self.opened:
            self._close(shown.node.path)
            return row
        return shown.parent if shown.parent >= 0 else row

    def open_top_path(self, row: int | None) -> Path | None:
        """Open the top path from a node, or from the top root, to its end; returns the last."""
        way = top_path(self.paths, self.node(row))
        self.opened |= {node.path for node in way[:-1]}
        return way[-1].path if way else None

    def _close(self, path: Path) -> None:
        self.opened.discard(path)
