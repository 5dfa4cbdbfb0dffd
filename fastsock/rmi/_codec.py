"""Packs values into a scratch that is kept, and makes them again. `_format.pxd` describes the bytes.

The packer and the unpacker are a class in four files each, from plain values up:

    _packing_values     _unpacking_values       what most calls are made of; identities
    _packing_special    _unpacking_special      arrays, times, what the libraries have
    _packing_objects    _unpacking_objects      registered classes, exceptions, references
    _packing            _unpacking              a frame from its start to its end
    _segments           memory that follows a frame's body
    _kinds              which types those are
    _memory.pxd, _memo.pxd      what they do to memory; what a frame holds already
"""

from __future__ import annotations

from fastsock.rmi._packing import OPTIMIZATIONS, Packer
from fastsock.rmi._segments import new_segment, segment_words
from fastsock.rmi._unpacking import Unpacker

__all__ = ["OPTIMIZATIONS", "Packer", "Unpacker", "new_segment", "segment_words"]
