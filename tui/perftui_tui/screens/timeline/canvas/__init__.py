"""The widget that draws the timeline, and its rows of cells."""
