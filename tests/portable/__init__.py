"""One program, built by several compilers for several processors, whose outputs must be equal:
`make portable`."""
