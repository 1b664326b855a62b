"""perftui for coding agents, over the Model Context Protocol: each tool is a command of ours."""
