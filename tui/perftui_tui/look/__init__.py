"""Styled rows, colours, themes, and how quantities are written."""
