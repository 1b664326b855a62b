"""Pure functions from a Trace to tables: operators, kernels, gaps, steps, the step budget."""
