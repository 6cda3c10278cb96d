"""Converts gradient dumps to traces: `conversion` runs all steps.

`sources` lists the files, `units` groups files that are opened together, one module per format
reads them (`reader` is their interface); `names`, `layout` and `order` assign arrays to steps,
workers and tensors, `write` writes the trace.
"""
