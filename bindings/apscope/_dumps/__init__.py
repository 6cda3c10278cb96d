"""Foreign gradient dumps into traces: `conversion` is all of it in order.

`sources` lists the files, `units` says what is opened as one, and a module a format reads it (`reader` is what they share);
`names`, `layout` and `order` say what is where, `write` writes the trace.
"""
