"""How apscope writes: into a fresh hidden folder beside the place, locked, and moved there when it is whole."""
