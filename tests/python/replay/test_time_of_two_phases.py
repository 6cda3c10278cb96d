"""A replay in two phases takes a time that grows with the tensor, not with its square."""

import time

import apscope
from docs.tools.cost_against_size import write_trace


def test_four_times_the_values_take_less_than_twelve_times_the_time(tmp_path):
    """One worker's shard is the whole tensor, of which a block at a time is taken."""
    seconds = []
    for elements in (2**20, 2**22):
        write_trace(tmp_path / str(elements), 1, 1, elements)
        trace = apscope.open_trace(tmp_path / str(elements))
        best = float("inf")
        for _ in range(3):
            began = time.process_time()
            apscope.replay(trace, ["aps:e4m3"], topology=["two_phase"], threads=1)
            best = min(best, time.process_time() - began)
        seconds.append(best)
    assert seconds[1] < 12 * seconds[0], seconds  # of the square: 30 times and more
