"""What a script marks itself: ranges, and the ends of its steps."""
