"""`apscope.search`: which split of N bits between exponent and mantissa loses least."""
