"""The random integers of replays and all-reduces: Philox4x32-10 over whole arrays of elements.

definitions.md section 7. The counter's words are the element block (two words), the worker, and the
stage (top four bits) with the hop.
"""

import numpy as np

QUANTIZE, WIRE, REDUCE, DEEPER, PLACE = 0, 1, 2, 3, 5  #: stages
EXACT_BITS = 18 * 64  #: digits that decide every fp64 number between two values of any format


def philox(counter: list, key: tuple[int, int]) -> list[np.ndarray]:
    """Ten rounds on four arrays of 32-bit words, held in uint64 so that products do not wrap."""
    c0, c1, c2, c3 = np.broadcast_arrays(*(np.asarray(c, np.uint64) for c in counter))
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    k0, k1 = key
    for _ in range(10):
        product0, product1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (
            product1 >> shift ^ c1 ^ np.uint64(k0),
            product1 & low,
            product0 >> shift ^ c3 ^ np.uint64(k1),
            product0 & low,
        )
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return [c0, c1, c2, c3]


def words_of(number: int) -> tuple[int, int]:
    """The low and the high 32 bits."""
    return number & 0xFFFFFFFF, number >> 32


def fnv1a(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value


def replay_key(seed: int, tensor: str, step: int, draw: int = 0) -> tuple[int, int]:
    """The key of one tensor at one step."""
    words = [int(w) for w in philox([*words_of(fnv1a(tensor)), *words_of(step)], words_of(seed))]
    return (words[0], words[1]) if draw == 0 else (words[2] + draw & 0xFFFFFFFF, words[3])


def random_integer(seed: int, element: int, bits: int) -> int:
    """The `bits` random bits of one element of `apscope.quantize`."""
    return random_integers(words_of(seed), [element], bits, QUANTIZE)[0]


def random_integers(
    key, elements, bits: int, stage: int, worker: int = 0, hop: int = 0
) -> list[int]:
    """The `bits` random bits of each element: the top of its eighth, quarter or half of a block.

    More than 64 are the digits of one number, highest word first: word k > 0 lies at stage DEEPER,
    hop k.
    """
    if bits > 64:
        first = random_integers(key, elements, 64, stage, worker, hop)
        rest = [random_integers(key, elements, 64, DEEPER, worker, k) for k in range(1, bits // 64)]
        return [
            sum(word << 64 * i for i, word in enumerate(reversed(words)))
            for words in zip(first, *rest)
        ]
    elements = np.asarray(elements, np.uint64)
    width = 16 if bits <= 16 else 32 if bits <= 32 else 64
    block, slot = np.divmod(elements, np.uint64(128 // width))
    words = np.array(
        philox(
            [block & np.uint64(0xFFFFFFFF), block >> np.uint64(32), worker, stage << 28 | hop], key
        )
    )
    columns = np.arange(len(elements))
    if width == 64:
        first = (2 * slot).astype(int)
        whole = words[first, columns] | words[first + 1, columns] << np.uint64(32)
    elif width == 32:
        whole = words[slot.astype(int), columns]
    else:
        pair = words[(slot // np.uint64(2)).astype(int), columns]
        whole = pair >> np.uint64(16) * (slot % np.uint64(2)) & np.uint64(0xFFFF)
    return (whole >> np.uint64(width - bits)).tolist()


def places(key, count: int, workers: int, hop: int = 0) -> np.ndarray:
    """The places (workers, count) of the workers: Fisher and Yates' shuffle of 0, ..., workers - 1.

    Exchange k of an element, with k from workers - 1 down to 1, has the 32-bit word of index
    element (workers - 1) + k - 1 at stage PLACE; its place j is that word times k + 1 over 2^32.
    """
    elements = np.arange(count)
    at = np.tile(np.arange(workers)[:, None], (1, count))  # the worker at every place
    for k in range(workers - 1, 0, -1):
        words = random_integers(key, elements * (workers - 1) + k - 1, 32, PLACE, 0, hop)
        j = np.array(words, np.int64) * (k + 1) >> 32
        at[k], at[j, elements] = at[j, elements], at[k].copy()
    return np.argsort(at, axis=0)


def correlated_integers(
    key, count: int, bits: int, workers: int, worker: int, hop: int = 0
) -> list[int]:
    """The `bits` bits of (place + U) / workers, U in [0, 1) the worker's word of an element."""
    words = random_integers(key, range(count), bits, WIRE, worker, hop)
    place = places(key, count, workers, hop)[worker].tolist()
    return [((p << bits) + word) // workers for p, word in zip(place, words, strict=True)]
