"""When a device is idle, and why."""
