"""Arrays in a GPU's memory, for `quantize` and others, without a copy, on the caller's stream.

A torch CUDA tensor, anything with ``__cuda_array_interface__`` (version 2 or 3) and anything whose
``__dlpack_device__`` is a CUDA GPU can be passed to `quantize`, `encode`, `decode`,
`cast_statistics`, `quantize_blocks`, `encode_blocks`, `decode_blocks`, `allreduce` and
`matmul` (of matrices, with equal leading axes); the other functions refuse it. All arrays of a call
must be on one GPU. Results are of the same kind: a tensor for a tensor, JAX's array for JAX's (but
for numbers of 8 bytes, which JAX cuts unless its 64-bit types are enabled), a `DeviceArray` for the
others. The kernels are in the optional module ``apscope._cuda``, which is built with
``-DAPSCOPE_CUDA=ON`` and imported when a GPU is used.

`apscope.replay` with ``device="cuda"`` uses a GPU for arrays in the CPU's memory. `apscope.train`
trains a model on a GPU there (docs/recipes.md).

The results have the same bits as on the CPU. Not supported on a GPU, and refused with a sentence:
the caller's random words (``random=``), float64 block formats and matrix products,
``order="exact"``.
"""

from ._arrays.device_arrays import DeviceArray
from ._arrays.gpu import is_available, require

__all__ = ["DeviceArray", "is_available", "require"]
