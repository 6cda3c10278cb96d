"""Written by .ci/stubs.py: make stubs."""

from .._dumps.conversion import Conversion, convert
from .._dumps.te_statistics import beside_te_statistics, te_statistics
from .._traces.arrays import from_arrays
from .._traces.roles import guess_role
from .._traces.writer import TraceWriter
from ..record._cut import cut
from ..record._overhead import Overhead
from ..record._recorder import Recorder

__all__ = ["Conversion", "Overhead", "Recorder", "TraceWriter", "beside_te_statistics", "convert", "cut", "from_arrays", "guess_role", "te_statistics"]
