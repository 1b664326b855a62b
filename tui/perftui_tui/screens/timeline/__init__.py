"""The Timeline screen: threads and streams over time."""
