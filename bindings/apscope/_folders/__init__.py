"""How apscope writes: into a new hidden folder next to the destination, locked, then renamed."""
