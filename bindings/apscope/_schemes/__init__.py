"""Lists of schemes, and one scheme on one step's arrays."""
