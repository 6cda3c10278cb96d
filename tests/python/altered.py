"""Results of a replay with other rows."""

import apscope


def altered(results, frame=None, **others):
    """The same results with this frame, and with others of what `Results` takes."""
    frame = results.frame if frame is None else frame.reset_index(drop=True)
    held = {
        "histograms": results.histograms,
        "provenance": results.provenance,
        "noise": results.noise,
    }
    return apscope.Results(frame, **held | others)
