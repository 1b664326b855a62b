"""Training on the CPU: its operators, the cores it may use, and the machine around it."""
