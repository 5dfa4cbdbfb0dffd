"""Python's own pickle without its module, which imports `re` and much more: a rank's start would pay for that.

Where the program has imported the module, its functions count: it may have replaced them.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING or "pickle" in sys.modules:
    from pickle import HIGHEST_PROTOCOL, PickleBuffer, dumps, loads
else:
    try:
        from _pickle import PickleBuffer, dumps, loads

        HIGHEST_PROTOCOL = dumps(None, -1)[1]  # a pickle begins with the opcode PROTO and this number
    except ImportError:  # an interpreter that has it in Python only
        from pickle import HIGHEST_PROTOCOL, PickleBuffer, dumps, loads

__all__ = ["HIGHEST_PROTOCOL", "PickleBuffer", "dumps", "loads"]
