"""Trainings below Nsight Systems."""
