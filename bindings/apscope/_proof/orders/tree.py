"""The tree of additions: found by cancelling terms, drawn in words, and of apscope's orders.

A tree is an index of a term, or a tuple of the trees that one addition adds: two of them, or more
where a unit adds several terms at once. Trees come before single terms, then in order of the first
index.
"""

from __future__ import annotations

import functools
from typing import Any

from .masks import Masks, ResidueError

Tree = Any  # int | tuple[Tree, ...]
#: Elements begin, ..., end - 1 of the result, and their tree.
Run = tuple[int, int, Tree]


class NotATreeError(Exception):
    """The terms that are lost contradict every order of additions."""


def leaves(tree: Tree) -> list[int]:
    """The indices in the order in which the tree has them."""
    return [tree] if isinstance(tree, int) else [i for part in tree for i in leaves(part)]


def node(parts: list[Tree]) -> Tree:
    """One addition of these parts."""
    return tuple(sorted(parts, key=lambda part: (isinstance(part, int), min(leaves(part)))))


def nodes(tree: Tree) -> list[tuple[Tree, ...]]:
    """All additions, those inside of others first."""
    if isinstance(tree, int):
        return []
    return [inner for part in tree for inner in nodes(part)] + [tree]


def trees_of(masks: Masks) -> tuple[Run, ...]:
    """The tree of every element of the result, equal neighbours as one run.

    The recursion is FPRev's (Xie, Gao and Xue, arXiv 2411.00442), with sets of lost terms in place
    of their number.

    Raises
    ------
    NotATreeError
        No tree of additions loses these terms.
    """
    try:
        return _trees_of(masks)
    except (ResidueError, NotATreeError):
        if masks.bits == 1:
            raise
        masks.bits, masks.found = 1, {}
        return _trees_of(masks)


def _trees_of(masks: Masks) -> tuple[Run, ...]:
    count = masks.called.elements
    of: list[Tree] = [None] * count
    for element in range(count):
        if of[element] is not None:
            continue
        builder = _Builder(masks, element)
        tree = builder.build(list(range(masks.called.terms)))
        for other in range(element, count):
            if of[other] is None and all(
                masks.found[pair][other] == masks.found[pair][element] for pair in builder.used
            ):
                of[other] = tree
    starts = [e for e in range(count) if e == 0 or of[e] != of[e - 1]]
    return tuple((a, b, of[a]) for a, b in zip(starts, [*starts[1:], count], strict=True))


class _Builder:
    def __init__(self, masks: Masks, element: int) -> None:
        self.masks, self.element = masks, element
        self.used: set[tuple[int, int]] = set()

    def ball(self, i: int, j: int) -> int:
        self.used.add((min(i, j), max(i, j)))
        return self.masks.ball(i, j)[self.element]

    def build(self, members: list[int]) -> Tree:
        """The tree of these terms: the sums that contain the first of them, from inside."""
        first, *others = members
        balls = {j: self.ball(first, j) for j in others}
        tree, inside = first, 1 << first
        for ball in sorted(set(balls.values()), key=int.bit_count):
            ring = [j for j in others if balls[j] == ball]
            if ball != inside | _set(ring):
                raise NotATreeError
            tree, inside = node([tree, *self.parts(ring, ball)]), ball
        return tree

    def parts(self, ring: list[int], ball: int) -> list[Tree]:
        """The trees of the terms that one addition adds to a sum."""
        parts = []
        while ring:
            part = [ring[0], *(k for k in ring[1:] if self.ball(ring[0], k) != ball)]
            parts.append(self.build(part))
            ring = [k for k in ring if k not in part]
        return parts


def _set(members: list[int]) -> int:
    return functools.reduce(lambda bits, member: bits | 1 << member, members, 0)


def sequential(parts: list[Tree]) -> Tree:
    """((p0 + p1) + p2) + ..."""
    return functools.reduce(lambda left, right: node([left, right]), parts)


def pairwise(parts: list[Tree]) -> Tree:
    """Neighbours, then neighbouring sums; an odd last one passes to the next level."""
    while len(parts) > 1:
        pairs = [node(parts[i : i + 2]) for i in range(0, len(parts) - 1, 2)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]


def chunk_of(tree: Tree, terms: int) -> int:
    """N for which the tree is that of ``chunked:N``; 0 if there is none."""
    if isinstance(tree, int):
        return 0
    for total in (tree, tree[0]):  # the last chunk may be a single term
        chunk = total
        while isinstance(chunk, tuple) and isinstance(chunk[-1], tuple):
            chunk = chunk[0]
        n = len(leaves(chunk))
        chunks = [sequential(list(range(i, min(i + n, terms)))) for i in range(0, terms, n)]
        if 1 < n < terms and sequential(chunks) == tree:
            return n
    return 0


def drawn(tree: Tree, addend: int | None = None) -> str:
    """The tree in words.

    ``seq(a, b, c)`` is (a + b) + c, ``pairwise(a, b, c, d)`` (a + b) + (c + d), ``fused(a, b, c)``
    one addition of all of them, ``chain(a, b | c, d | e, f)`` one of a and b, one of their sum, c
    and d, and so on. ``0..63`` are consecutive terms, ``0..56 by 8`` every eighth, ``seq(0..7) ..
    seq(56..63)`` equal sums of consecutive terms.
    """
    if isinstance(tree, int):
        return "C" if tree == addend else str(tree)
    if len(tree) > 2:
        blocks = [list(tree)]
        while isinstance(blocks[0][0], tuple) and len(blocks[0][0]) > 2:
            blocks = [list(blocks[0][0]), blocks[0][1:], *blocks[1:]]
        words = [_list(block, addend) for block in blocks]
        if len(words) > 5:
            words = [*words[:3], "..", words[-1]]
        return f"{'fused' if len(words) == 1 else 'chain'}({' | '.join(words)})"
    balanced = _balanced(tree)
    if len(balanced) > 2:
        return f"pairwise({_list(balanced, addend)})"
    items = [tree]
    while isinstance(items[0], tuple) and len(items[0]) == 2:
        whole = len(items) > 2 and type(items[0][1]) is not type(items[1])
        if whole or (len(items) > 1 and len(_balanced(items[0])) > 2):
            break
        items = [*items[0], *items[1:]]
    pair = all(isinstance(item, int) for item in items[:3]) and len(items) > 2
    if pair and items[2] - items[0] == items[0] - items[1]:  # the first two in either order
        items[:2] = items[1::-1]
    if len(items) == 2:
        return f"({drawn(items[0], addend)} + {drawn(items[1], addend)})"
    return f"seq({_list(items, addend)})"


def _balanced(tree: Tree) -> list[Tree]:
    """The parts that are added in pairs, then pairs of pairs, and so on."""
    parts = [tree]
    while all(
        isinstance(part, tuple) and len(part) == 2 and len(leaves(part[0])) == len(leaves(part[1]))
        for part in parts
    ):
        parts = [inner for part in parts for inner in part]
    return parts


def _shifted(tree: Tree, step: int) -> Tree:
    return tree + step if isinstance(tree, int) else tuple(_shifted(part, step) for part in tree)


def _list(items: list[Tree], addend: int | None) -> str:
    """Items, runs of at least three that follow by a constant step as their ends."""
    words = []
    while items:
        first, run = items[0], 1
        step = min(leaves(items[1])) - min(leaves(first)) if len(items) > 1 else 0
        while run < len(items) and items[run] == _shifted(items[run - 1], step) != addend:
            run += 1
        if run < 3:
            words.append(drawn(first, addend))
            run = 1
        else:
            gap = ".." if isinstance(first, int) else " .. "
            by = "" if step == 1 or gap == " .. " else f" by {step}"
            words.append(f"{drawn(first, addend)}{gap}{drawn(items[run - 1], addend)}{by}")
        items = items[run:]
    return ", ".join(words)
