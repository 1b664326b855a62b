"""Rules about a GPU that idles, copies, or runs short of memory."""
