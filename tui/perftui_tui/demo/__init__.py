"""The training that `perftui demo` runs, shipped as a script."""
