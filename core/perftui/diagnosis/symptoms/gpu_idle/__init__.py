"""Rules about a GPU that idles: launches, waits of the host, copies, calls for memory."""
