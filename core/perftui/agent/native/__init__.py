"""The compiled extension module and what takes its place without a compiler."""
