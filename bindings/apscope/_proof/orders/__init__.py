"""The order of additions of an unknown sum, product or all-reduce."""
