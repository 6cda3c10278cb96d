"""The schemes: one class each, made from the C++ registry, and specs.

Every class takes the format first (if the scheme has one) and the scheme's keys as keyword
arguments; ``apscope schemes`` lists them. A scheme prints as its spec and is equal to any scheme of
the same spec. `define` makes new ones from NumPy functions.
"""

from ._schemes.classes import CLASSES
from ._schemes.definitions import SchemeDefinition, SchemeKey, definitions
from ._schemes.lists import all_schemes, main_schemes
from ._schemes.scheme import Scheme, as_scheme, define

__all__ = [  # noqa: PLE0604  # the classes' names are strings
    "Scheme",
    "SchemeDefinition",
    "SchemeKey",
    "all_schemes",
    "as_scheme",
    "define",
    "definitions",
    "main_schemes",
    *CLASSES,
]
__dir__ = __all__.copy

globals().update(CLASSES)
