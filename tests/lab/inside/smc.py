"""Gives the kernel's SMC an enterprise id (UEID): without one, hosts other than mainframes do not agree on SMC.

    python3 smc.py NAME

Generic netlink, because Debian has no package of smc-tools.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

_GENERIC = 16
_GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 3, 1, 2
_ADD_UEID, _UEID = 10, 1  # SMC_NETLINK_ADD_UEID, SMC_NLA_EID_TABLE_ENTRY
_REQUEST_AND_ACK = 5


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        found[kind] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found


def _ask(family: int, command: int, attribute: bytes) -> bytes:
    """Sends one request; gives back what the kernel's first message holds behind its headers."""
    body = struct.pack("=BBH", command, 1, 0) + attribute
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _GENERIC) as kernel:
        kernel.settimeout(5)
        kernel.send(struct.pack("=IHHII", 16 + len(body), family, _REQUEST_AND_ACK, 1, 0) + body)
        answer = kernel.recv(65536)
    length, kind = struct.unpack_from("=IH", answer)
    if kind == 2:  # NLMSG_ERROR
        error = -struct.unpack_from("=i", answer, 16)[0]
        if error:
            raise OSError(error, os.strerror(error))
    return answer[20:length]


def add_ueid(name: str) -> None:
    found = _attributes(_ask(16, _GET_FAMILY, _attribute(_FAMILY_NAME, b"SMC_GEN_NETLINK\0")))
    (family,) = struct.unpack("=H", found[_FAMILY_ID])
    _ask(family, _ADD_UEID, _attribute(_UEID, name.encode().ljust(32) + b"\0"))


if __name__ == "__main__":
    add_ueid(sys.argv[1])
