"""What would keep profiling from working on this machine: its interpreter, its GPU, the rest.

Everything is only read. The functions that judge take the root of a file system, or values that
were read before, so that they can be tested without the hardware.
"""
