"""The live panes of the Overview."""
