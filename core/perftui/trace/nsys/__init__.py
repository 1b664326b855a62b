"""Exports of NVIDIA Nsight Systems: SQLite databases whose tables vary with its version."""
