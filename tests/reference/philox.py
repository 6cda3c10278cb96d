"""The random words of `apscope.quantize`, from the definition of Philox4x32-10."""

MASK = 0xFFFFFFFF


def philox4x32_10(counter: list[int], key: list[int]) -> list[int]:
    """Ten rounds (Salmon, Moraes, Dror, Shaw 2011) of two 32 x 32 bit products and a key bump."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        product0, product1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (
            product1 >> 32 ^ c1 ^ k0,
            product1 & MASK,
            product0 >> 32 ^ c3 ^ k1,
            product0 & MASK,
        )
        k0, k1 = k0 + 0x9E3779B9 & MASK, k1 + 0xBB67AE85 & MASK
    return [c0, c1, c2, c3]


def random_integer(seed: int, element: int, bits: int) -> int:
    """The `bits` random bits of one element: up to 16 take an eighth of a block, up to 32 a
    quarter, else a half; the top bits of that run, whose least significant word comes first."""
    width = 16 if bits <= 16 else 32 if bits <= 32 else 64
    block, slot = divmod(element, 128 // width)
    words = philox4x32_10([block & MASK, block >> 32, 0, 0], [seed & MASK, seed >> 32])
    whole = sum(word << 32 * i for i, word in enumerate(words))
    return (whole >> width * slot & (1 << width) - 1) >> width - bits
