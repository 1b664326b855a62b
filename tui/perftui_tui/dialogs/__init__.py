"""Questions and help, drawn over a screen."""
