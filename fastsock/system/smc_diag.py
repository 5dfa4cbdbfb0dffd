"""What the kernel tells of an AF_SMC socket: how its bytes travel, and why not by SMC (smc_diag over netlink)."""

from __future__ import annotations

import _socket
import struct
import sys

AF_SMC = 43
FALLBACK = 1  # a mode
MODES = {0: "SMC-R", 2: "SMC-D"}
INIT, CLOSED, LISTEN = 2, 7, 10  # states
_NETLINK_SOCK_DIAG, _BY_FAMILY, _DUMP = 4, 20, 0x301  # NLM_F_REQUEST, NLM_F_DUMP
_ERROR, _DONE = 2, 3
_FALLBACK_ATTRIBUTE = 5
_HEADER = struct.Struct("=IHHII")
_REQUEST = _HEADER.pack(16 + 52, _BY_FAMILY, _DUMP, 1, 0) + struct.pack("=BBBB48x", AF_SMC, 0, 0, 0)
_SOCKET = struct.Struct("=BBBB48xIQ")  # smc_diag_msg: family, state, mode, shutdown, id, user, inode
_ATTRIBUTE = struct.Struct("=HH")
_REASONS = struct.Struct("=II")  # smc_diag_fallback: reason, the peer's diagnosis
_SECONDS = 1.0  # the kernel answers at once

# net/smc/smc_clc.h
REASONS = {
    0x01010000: "not enough memory",
    0x02010000: "the other end did not confirm the link in time",
    0x02020000: "the other end did not add a link in time",
    0x03000000: "a configuration error",
    0x03010000: "the other end does not speak SMC",
    0x03020000: "IPsec is in use",
    0x03030000: "no SMC device was found",
    0x03030001: "no SMC-D device was found",
    0x03030002: "no SMC-R device was found",
    0x03030003: "the hardware has no ISMv2",
    0x03030004: "the other end sent no v2 extension",
    0x03030005: "the other end sent no v2 extension for SMC-D",
    0x03030006: "the peer sent no system EID",
    0x03030007: "no SMC-D v2 device was found",
    0x03030008: "the two ends have no EID in common",
    0x03030009: "the other end's release cannot be used",
    0x0303000A: "too many connections in the link group",
    0x0303000B: "too many links in the link group",
    0x03040000: "the two ends have no SMC mode in common",
    0x03050000: "the other end has SMC's receive buffers full",
    0x03060000: "a socket option is set that SMC does not support",
    0x03070000: "the two ends are in different subnets",
    0x03080000: "the VLAN could not be found",
    0x03090000: "the VLAN could not be registered at the device",
    0x030A0000: "no SMC-R link is active in the link group",
    0x030B0000: "the server's SMC-R link was not found",
    0x030C0000: "the two ends speak different versions of SMC",
    0x030D0000: "the SMC-D device has no more receive buffers",
    0x030E0000: "no route for SMC-Rv2",
    0x030F0000: "the two ends are in different subnets or indirect routes",
    0x04000000: "a synchronization error",
    0x05000000: "the other end declined",
    0x09990000: "an internal error",
    0x09990001: "the remote key could not be handled",
    0x09990002: "the link did not become ready",
    0x09990003: "the receive buffer could not be registered",
    0x09990004: "the kernel could not register a buffer",
}


def describe(reason: int) -> str:
    """A fallback reason in words, with the kernel's number."""
    return f"{REASONS.get(reason, 'a reason without a name here')} ({reason:#010x})"


def look_up(inode: int) -> tuple[int, int, int, int] | None:
    """State, mode, fallback reason and the peer's diagnosis of the AF_SMC socket with that inode.

    None where the kernel lists no such socket. Raises OSError where it has no smc_diag.
    """
    descriptor = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW | _socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG)
    try:
        descriptor.settimeout(_SECONDS)
        descriptor.send(_REQUEST)
        found = None
        while True:  # to the end, also where it was found
            for kind, body in _messages(descriptor.recv(1 << 16)):
                if kind == _DONE:
                    return found
                if kind == _ERROR:
                    number = -int.from_bytes(body[:4], sys.byteorder, signed=True)
                    raise OSError(number, "the kernel does not tell of AF_SMC sockets (smc_diag)")
                if len(body) >= _SOCKET.size:
                    _, state, mode, _, _, its_inode = _SOCKET.unpack_from(body)
                    if its_inode == inode:
                        found = (state, mode, *_fallback(body[_SOCKET.size :]))
    finally:
        descriptor.close()


def _messages(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    while len(data) >= _HEADER.size:
        length, kind, _, _, _ = _HEADER.unpack_from(data)
        if length < _HEADER.size:
            break
        found.append((kind, data[_HEADER.size : length]))
        data = data[(length + 3) & ~3 :]
    return found


def _fallback(attributes: bytes) -> tuple[int, int]:
    while len(attributes) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(attributes)
        if length < _ATTRIBUTE.size:
            break
        if kind == _FALLBACK_ATTRIBUTE and length >= _ATTRIBUTE.size + _REASONS.size:
            reason, diagnosis = _REASONS.unpack_from(attributes, _ATTRIBUTE.size)
            return reason, diagnosis
        attributes = attributes[(length + 3) & ~3 :]
    return 0, 0
