"""Written by .ci/stubs.py: make stubs."""

from .._dumps.conversion import Conversion as Conversion, convert as convert
from .._dumps.te_statistics import beside_te_statistics as beside_te_statistics, te_statistics as te_statistics
from .._traces.arrays import from_arrays as from_arrays
from .._traces.roles import guess_role as guess_role
from .._traces.writer import TraceWriter as TraceWriter
from ..record._cut import cut as cut
from ..record._overhead import Overhead as Overhead
from ..record._recorder import Recorder as Recorder

__all__ = ["Conversion", "Overhead", "Recorder", "TraceWriter", "beside_te_statistics", "convert", "cut", "from_arrays", "guess_role", "te_statistics"]
