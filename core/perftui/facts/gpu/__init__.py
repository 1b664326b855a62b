"""What a GPU does and waits for: idle time, copies, memory, streams, the card itself."""
