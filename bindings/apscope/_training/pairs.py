"""Tokens of a text by byte-pair encoding, learned from the text itself; without PyTorch.

A text is cut into words (a space before a word belongs to it); every word begins as its characters.
Then, as often as the vocabulary allows, the pair of neighbours that occurs most often becomes one
token (P. Gage, "A New Algorithm for Data Compression", 1994; R. Sennrich and others,
arXiv:1508.07909). Of equal pairs the first in the order of characters is taken, so a text has one
vocabulary.
"""

from __future__ import annotations

import collections
import heapq
import itertools
import re

_WORD = re.compile(r" ?[^\W\d_]+| ?\d+| ?(?:[^\w\s]|_)+|\s+(?!\S)|\s+")
_FEWEST = 2  #: A pair that occurs less often becomes no token.


def tokens(text: str, vocabulary: int) -> tuple[list[int], int]:
    """A text's tokens, and how many different ones there are.

    They are numbers from 0 in the order in which tokens were made: characters, in their order,
    first. There are fewer than `vocabulary` if no pair is left that occurs twice.

    Raises
    ------
    ValueError
        The text has more different characters than that.
    """
    all_words = _WORD.findall(text)
    counts = collections.Counter(all_words)
    alphabet = sorted(set(text))
    if len(alphabet) > vocabulary:
        raise ValueError(
            f"the text has {len(alphabet)} different characters; a vocabulary of {vocabulary} has "
            "no room for them"
        )
    number = {letter: place for place, letter in enumerate(alphabet)}
    words = {word: [number[letter] for letter in word] for word in counts}
    made = _merge(words, counts, len(alphabet), vocabulary)
    return list(itertools.chain.from_iterable(words[word] for word in all_words)), made


def _merge(words: dict[str, list[int]], counts: dict[str, int], made: int, vocabulary: int) -> int:
    """Merges in the words, until there are so many tokens; returns how many there are."""
    occurs: collections.Counter[tuple[int, int]] = collections.Counter()
    within: dict[tuple[int, int], dict[str, None]] = {}
    for word, symbols in words.items():
        for pair in itertools.pairwise(symbols):
            occurs[pair] += counts[word]
            within.setdefault(pair, {})[word] = None
    heap = [(-count, pair) for pair, count in occurs.items()]
    heapq.heapify(heap)
    while made < vocabulary and heap:
        count, pair = heapq.heappop(heap)
        if occurs[pair] != -count:
            if occurs[pair] >= _FEWEST:
                heapq.heappush(heap, (-occurs[pair], pair))
            continue
        if -count < _FEWEST:
            break
        changed: dict[tuple[int, int], None] = {}
        for word in within.pop(pair):
            symbols = words[word]
            for old in itertools.pairwise(symbols):
                occurs[old] -= counts[word]
            words[word] = symbols = _joined(symbols, pair, made)
            for new in itertools.pairwise(symbols):
                occurs[new] += counts[word]
                within.setdefault(new, {})[word] = None
                changed[new] = None
        for new in changed:
            heapq.heappush(heap, (-occurs[new], new))
        made += 1
    return made


def _joined(symbols: list[int], pair: tuple[int, int], token: int) -> list[int]:
    """The symbols with every occurrence of the pair, from the left, as one token."""
    joined = []
    place = 0
    while place < len(symbols):
        if tuple(symbols[place : place + 2]) == pair:
            joined.append(token)
            place += 2
        else:
            joined.append(symbols[place])
            place += 1
    return joined
