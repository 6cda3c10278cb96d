"""3LC: three levels per element, five elements per byte, and runs of zero bytes.

With m = max|x| and s = sparsity m, q in {-1, 0, 1} is x / s rounded, and decodes to s q:

- stochastic: |q| = 1 with probability |x| / s, as the second implementation has it, without error
  feedback;
- nearest: q = round(x / s), sparsity in [1, 2), with error feedback, as the paper has it.

Five digits q + 1 make a byte in base 3, 0 to 242, of which 121 is five zeros. A run of 2 to 14 such
bytes becomes one byte, 243 to 255; a longer run several, so ceil(run / 14) in all. A message has 8
bits per byte and 32 for s.

Source: Lim, Andersen and Kaminsky, 3LC: Lightweight and Effective Traffic Compression for
Distributed Machine Learning, arXiv 1802.07389; google-research/federated, compressed_communication,
three_lc.py, for the stochastic form. Which digits and byte values it uses does not change the
sizes.
"""

import numpy as np

F = np.float32
ZEROS = 121
LONGEST = 14


def scale(x: np.ndarray, sparsity: float = 1.0) -> F:
    """s, fp32."""
    return F(sparsity) * F(np.abs(np.asarray(x, F)).max(initial=0))


def stochastic(x: np.ndarray, s: F, u: np.ndarray) -> np.ndarray:
    """q by uniforms u in [0, 1): not 0 if u < |x| / s in fp32. A scale of 0 gives zeros."""
    x = np.asarray(x, F)
    if s == 0:
        return np.zeros(x.shape, np.int8)
    return (np.sign(x) * (np.asarray(u, F) < np.abs(x) / s)).astype(np.int8)


def nearest(x: np.ndarray, s: F) -> np.ndarray:
    """q to the nearest; an element of half of s, to even, is 0, an assumption."""
    x = np.asarray(x, F)
    return np.zeros(x.shape, np.int8) if s == 0 else np.round(x / s).astype(np.int8)


def with_feedback(
    g: np.ndarray, residual: np.ndarray, sparsity: float
) -> tuple[np.ndarray, np.ndarray]:
    """The paper's step: what a message decodes to, and the next residual."""
    x = np.asarray(g, F) + np.asarray(residual, F)
    s = scale(x, sparsity)
    sent = s * nearest(x, s).astype(F)
    return sent, x - sent


def digits_to_bytes(q: np.ndarray) -> list[int]:
    """Five digits per byte, the first of them the most significant; padded by zeros."""
    q = np.pad(np.asarray(q, np.int64), (0, -len(q) % 5)).reshape(-1, 5) + 1
    return (q @ [81, 27, 9, 3, 1]).tolist()


def shortened(codes: list[int]) -> list[int]:
    """Runs of zero bytes as long as possible, from the left; a single one stays."""
    out: list[int] = []
    at = 0
    while at < len(codes):
        run = 0
        while run < LONGEST and at + run < len(codes) and codes[at + run] == ZEROS:
            run += 1
        out.append(codes[at] if run < 2 else 243 + run - 2)
        at += max(run, 1)
    return out


def message(q: np.ndarray) -> list[int]:
    return shortened(digits_to_bytes(q))


def decoded(codes: list[int], n: int, s: F) -> np.ndarray:
    """The n elements of a message."""
    long: list[int] = []
    for code in codes:
        long += [code] if code < 243 else [ZEROS] * (code - 243 + 2)
    q = [code // place % 3 - 1 for code in long for place in (81, 27, 9, 3, 1)]
    return F(s) * np.array(q[:n], F)


def bits(q: np.ndarray) -> int:
    return 8 * len(message(q)) + 32


def total(rows: np.ndarray, u: np.ndarray, sparsity: float = 1.0) -> tuple[np.ndarray, list[int]]:
    """The fp32 sum in rank order of the workers' decoded messages, rows (W, n), stochastic; and
    the bits of every message."""
    result, sizes = np.zeros(rows.shape[1], F), []
    for row, draws in zip(rows, u, strict=True):
        s = scale(row, sparsity)
        q = stochastic(row, s, draws)
        result = result + s * q.astype(F)
        sizes.append(bits(q))
    return result, sizes
