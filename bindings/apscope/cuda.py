"""Arrays in a GPU's memory: what `quantize` and its kin do with them, without a copy, on the caller's stream.

A torch CUDA tensor, anything with ``__cuda_array_interface__`` (version 2 or 3) and anything whose
``__dlpack_device__`` is a CUDA GPU goes to the functions of the package as any array does, and comes back as
the same kind: a tensor for a tensor, a `DeviceArray` for the others. The kernels are in the optional module
``apscope._cuda``, which is built with ``-DAPSCOPE_CUDA=ON`` and imported when a GPU is asked for.

`apscope.replay` with ``device="cuda"`` uses a GPU for arrays in the CPU's memory.

The results have the bits that the same call gives for the array on the CPU. Not served on a GPU, and refused
with a sentence: random words of the caller's (``random=``), float64 block formats and matrix products,
``order="exact"``.
"""

from ._arrays.device_arrays import DeviceArray
from ._arrays.gpu import is_available, require

__all__ = ["DeviceArray", "is_available", "require"]
