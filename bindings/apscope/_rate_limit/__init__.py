"""`apscope.limit`: the least error of N bits per gradient value, and schemes measured against it."""
