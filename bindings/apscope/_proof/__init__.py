"""What was proved on this machine, and how fast it is."""
