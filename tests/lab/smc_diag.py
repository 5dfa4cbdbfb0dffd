"""What the kernel says of its SMC connections (smc_diag): the way that each has taken."""

from __future__ import annotations

import socket
import struct

_SOCK_DIAG, _SMC_DIAG, _DUMP = 4, 20, 0x301
_DONE = 3
_FALLBACK = 5  # SMC_DIAG_FALLBACK
_MODES = {0: "SMC-R", 1: "TCP", 2: "SMC-D"}


def _reason(attributes: bytes) -> str:
    """Why a connection fell back: the code of the kernel's smc_clc.h, SMC_CLC_DECL_*."""
    while len(attributes) >= 4:
        length, kind = struct.unpack_from("=HH", attributes)
        if kind == _FALLBACK:
            here, there = struct.unpack_from("=II", attributes, 4)
            return f", reason {here:#x}, of the peer {there:#x}"
        attributes = attributes[(length + 3) & ~3 :]
    return ""


def smc_modes(port: int) -> list[str]:
    """The mode of each connection to or from this port. Listeners have no peer, and are left out."""
    modes = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(5)
        body = struct.pack("=BBBB", 43, 0, 0xFF, 0) + bytes(48)
        kernel.send(struct.pack("=IHHII", 16 + len(body), _SMC_DIAG, _DUMP, 1, 0) + body)
        while True:
            answer = kernel.recv(1 << 16)
            while answer:
                length, kind = struct.unpack_from("=IH", answer)
                if kind == _DONE:
                    return modes
                mode = answer[18]
                ports = struct.unpack_from(">HH", answer, 20)
                if port in ports and 0 not in ports:
                    modes.append(_MODES.get(mode, str(mode)) + (_reason(answer[80:length]) if mode == 1 else ""))
                answer = answer[(length + 3) & ~3 :]
