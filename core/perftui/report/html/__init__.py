"""A report as one HTML file that loads nothing and runs nothing."""
