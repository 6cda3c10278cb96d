"""All peers that can run here, by name, and why the others cannot."""

import functools

from .dtypes import ml_dtypes_peers, numpy_peers, torch_peers
from .nvidia import nvidia_peers
from .peer import Missing, Peer
from .x86 import bf16_peers, f16c_peers

GROUPS = {
    "numpy": numpy_peers, "ml_dtypes": ml_dtypes_peers, "torch": torch_peers,
    "nvidia": nvidia_peers,
    "f16c": f16c_peers, "avx512_bf16": bf16_peers,
}  # fmt: skip


@functools.cache
def group(name: str) -> tuple[Peer, ...]:
    """The peers of a group; `Missing` says why there are none."""
    return tuple(GROUPS[name]())


@functools.cache
def everyone() -> tuple[dict[str, Peer], dict[str, str]]:
    """The peers here by name, and the reason for each group that is not here."""
    peers: dict[str, Peer] = {}
    missing: dict[str, str] = {}
    for name in GROUPS:
        try:
            peers.update({p.name: p for p in group(name)})
        except Missing as reason:
            missing[name] = str(reason)
    return peers, missing


def find(name: str) -> Peer:
    """One peer, by name; groups behind its own are left alone."""
    for peers in GROUPS:
        try:
            for peer in group(peers):
                if peer.name == name:
                    return peer
        except Missing:
            continue
    raise KeyError(name)
