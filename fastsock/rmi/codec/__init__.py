"""Packs values into a scratch that is kept, and makes them again. `_format.pxd` describes the bytes.

by_value_buffers            enters the classes of buffers
values, derived, unregistered, libraries
                            the classes that travel: registered ones, subclasses of plain ones, others
refusals                    what is said of a value that cannot travel

The packer and the unpacker are a class in four files each, from plain values up:

    _packing_values     _unpacking_values       what most calls are made of; identities
    _packing_special    _unpacking_special      arrays, times, what the libraries have
    _packing_objects    _unpacking_objects      registered classes, exceptions, references
    _packing            _unpacking              a frame from its start to its end
    _segments           memory that follows a frame's body
    _type_table         which types those are
    _memory.pxd, _memo.pxd      what they do to memory; what a frame holds already

Tests: tests/rmi/test_codec.py, test_codec_hostile.py, test_values.py, test_library_values.py, test_refusals.py.
"""

from __future__ import annotations

from fastsock.rmi.codec._packing import OPTIMIZATIONS, Packer
from fastsock.rmi.codec._segments import new_segment, segment_words
from fastsock.rmi.codec._unpacking import Unpacker

__all__ = ["OPTIMIZATIONS", "Packer", "Unpacker", "new_segment", "segment_words"]
