"""What a timeline draws: tracks of events that do not overlap, at any zoom."""
