"""Pure drawing: values and a size in, rows of text out."""
