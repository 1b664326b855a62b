"""Network interfaces, TCP, and InfiniBand or RoCE ports."""
