"""What the agent and the recorder both speak: formats and names, standard library only."""
