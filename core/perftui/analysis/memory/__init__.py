"""Memory of a device over time, by what it is for: from a snapshot, or from a trace."""
