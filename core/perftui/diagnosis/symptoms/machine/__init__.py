"""Rules about the machine: its cores, its cards, and their memory."""
