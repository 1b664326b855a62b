"""Parts that several screens draw: meters, the bar of a step, lists of findings."""
