"""Named ranges of steps, phases and modules inside a profiled window."""
