"""A chart that fills the screen."""
