"""Other implementations of casts from fp32, compared with apscope's on all 2^32 inputs.

`python -m tests.peers` walks them all, `tests/python/proof/test_peers.py` a sample of them.
"""
