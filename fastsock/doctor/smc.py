"""What the kernel's AF_SMC has to work with: its devices and its enterprise ids, asked by generic netlink."""

from __future__ import annotations

import os
import socket
import struct
from typing import Any

_GENERIC = 16
_CONTROL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2
_FAMILY = b"SMC_GEN_NETLINK\0"
_GET_SMCD, _GET_SMCR, _DUMP_UEID = 5, 6, 9  # SMC_NETLINK_*
_SMCD, _SMCR, _UEID = 5, 6, 1  # the attribute that each answer consists of
_PCI_ID, _PORTS, _IB_NAME = 7, (8, 9), 10  # SMC_NLA_DEV_*
_PORT_NETDEV, _PORT_ACTIVE = 3, 4  # SMC_NLA_DEV_PORT_*
_REQUEST, _ACK, _DUMP = 1, 4, 0x300
_ERROR, _DONE = 2, 3
_SECONDS = 2.0


def devices() -> dict[str, list[dict[str, Any]]]:
    """The devices of SMC-R, with their active ports, and of SMC-D; and the enterprise ids (UEID).

    Raises OSError where the kernel does not answer, or is older than these questions.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _GENERIC) as kernel:
        kernel.settimeout(_SECONDS)
        name = _attribute(_FAMILY_NAME, _FAMILY)
        seen = _ask(kernel, _CONTROL, _GET_FAMILY, _REQUEST | _ACK, name)
        (family,) = struct.unpack("=H", _attributes(seen[0])[_FAMILY_ID])

        def dump(command: int, kind: int) -> list[bytes]:
            answers = (_attributes(answer) for answer in _ask(kernel, family, command, _REQUEST | _DUMP))
            return [each[kind] for each in answers if kind in each]

        return {
            "smc_r": [_rdma_device(_attributes(each)) for each in dump(_GET_SMCR, _SMCR)],
            "smc_d": [{"name": _text(_attributes(each).get(_PCI_ID, b""))} for each in dump(_GET_SMCD, _SMCD)],
            "enterprise_ids": [{"name": _text(each)} for each in dump(_DUMP_UEID, _UEID)],
        }


def _rdma_device(seen: dict[int, bytes]) -> dict[str, Any]:
    ports = {number: _attributes(seen[kind]) for number, kind in enumerate(_PORTS, 1) if kind in seen}
    active = [number for number, port in ports.items() if port.get(_PORT_ACTIVE, b"\0")[0] == 1]
    return {"name": _text(seen.get(_IB_NAME, b"")), "active_ports": active}


def _text(value: bytes) -> str:
    return value.split(b"\0")[0].decode("ascii", "replace").strip()


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[4:length]  # without the flags "nested" and "network byte order"
        data = data[(length + 3) & ~3 :]
    return found


def _ask(kernel: socket.socket, family: int, command: int, flags: int, attribute: bytes = b"") -> list[bytes]:
    """The attributes of each message of the answer."""
    body = struct.pack("=BBH", command, 1, 0) + attribute
    kernel.send(struct.pack("=IHHII", 16 + len(body), family, flags, 1, 0) + body)
    answers: list[bytes] = []
    while True:
        part = kernel.recv(1 << 16)
        while len(part) >= 16:
            length, kind = struct.unpack_from("=IH", part)
            if kind == _DONE:
                return answers
            if kind == _ERROR:
                error = -struct.unpack_from("=i", part, 16)[0]
                if error:
                    raise OSError(error, os.strerror(error))
                return answers  # the acknowledgement comes last
            answers.append(part[20:length])
            part = part[(length + 3) & ~3 :]
