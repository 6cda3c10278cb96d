"""Foreign gradient dumps into traces: `units` finds the files, a reader a format opens them, `names`, `layout` and `order` say what is
where, `write` writes the trace; `convert` is all of it in order."""
