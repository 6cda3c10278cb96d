"""One program, built by several compilers for several processors, whose output must be one: `make
portable`."""
