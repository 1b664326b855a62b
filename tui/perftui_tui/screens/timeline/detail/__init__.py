"""The text below the timeline, about what is selected."""
