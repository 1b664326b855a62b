"""What the timeline shows, without any widget: tracks, selection, window, labels."""
