"""A table that draws only the rows in view, its columns, and its CSV files."""
