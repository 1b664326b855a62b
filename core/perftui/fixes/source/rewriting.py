"""Writes planned edits into a source file, touching no other byte.

LibCST takes longer to import than the app's first picture to make, so this is imported late.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from perftui.fixes.source.call_layout import with_keyword
from perftui.fixes.source.edits import AddKeyword, Edit, Literal, ReplaceLiteral
from perftui.fixes.source.refused import PatchRefusedError


def edited(source: bytes, edits: Sequence[Edit]) -> bytes:
    """``source`` with ``edits`` made, in its own encoding and line ends.

    Raises:
        PatchRefusedError: LibCST cannot give the file back byte for byte.
    """
    try:
        module = cst.parse_module(source)
    except (cst.ParserSyntaxError, UnicodeDecodeError, LookupError) as error:
        raise PatchRefusedError(f"the file does not parse: {error}") from error
    if module.bytes != source:
        raise PatchRefusedError("the file cannot be written back byte for byte")
    changed = MetadataWrapper(module).visit(_Editor(edits))
    return changed.bytes


class _Editor(cst.CSTTransformer):
    """Makes each edit at the node that begins at its position."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, edits: Sequence[Edit]) -> None:
        super().__init__()
        self._edits = edits

    def leave_Call(  # noqa: N802 - the name is LibCST's
        self, original_node: cst.Call, updated_node: cst.Call
    ) -> cst.Call:
        for edit in self._at(original_node):
            if isinstance(edit, AddKeyword):
                updated_node = with_keyword(updated_node, edit.name, _added(edit))
        return updated_node

    def leave_Integer(  # noqa: N802 - the name is LibCST's
        self, original_node: cst.Integer, updated_node: cst.Integer
    ) -> cst.BaseExpression:
        return self._replaced(original_node, updated_node)

    def leave_Name(  # noqa: N802 - the name is LibCST's
        self, original_node: cst.Name, updated_node: cst.Name
    ) -> cst.BaseExpression:
        return self._replaced(original_node, updated_node)

    def _replaced(
        self, original: cst.Integer | cst.Name, updated: cst.Integer | cst.Name
    ) -> cst.BaseExpression:
        for edit in self._at(original):
            if isinstance(edit, ReplaceLiteral):
                return _literal(edit.value).with_changes(lpar=updated.lpar, rpar=updated.rpar)
        return updated

    def _at(self, node: cst.CSTNode) -> list[Edit]:
        start = self.get_metadata(PositionProvider, node).start
        return [edit for edit in self._edits if edit.position == (start.line, start.column)]


def _added(edit: AddKeyword) -> cst.BaseExpression:
    return _literal(edit.value) if edit.text is None else cst.parse_expression(edit.text)


def _literal(value: Literal) -> cst.Integer | cst.Name:
    return cst.Name(str(value)) if isinstance(value, bool) else cst.Integer(str(value))
