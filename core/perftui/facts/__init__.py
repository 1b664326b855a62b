"""What a run says: pure functions of its snapshot, each read once for all who show or judge it."""
