"""What is put around functions of torch, and what keeps that invisible to the script."""
