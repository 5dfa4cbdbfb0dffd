"""The sdp path: the sockets-direct family. The kernel makes the whole stream socket, in place of TCP's.

AF_SMC is the member that a mainline kernel has. It shakes hands over TCP, then carries the bytes by RDMA (SMC-R) or
by shared memory of a device (SMC-D). Where the other end is plain TCP, or there is no device, the kernel falls back
to that TCP connection by itself. So nobody who is not asked for it notices it.
"""

from __future__ import annotations

import _socket

from .system.genuine import genuine
from .transport import Capability, Reason, Transport

AF_SMC = 43
AF_INET_SDP = 27  # kernels with the OpenFabrics distribution's ib_sdp
_PROTOCOLS = "/proc/net/protocols"
_SMC_PROTOCOLS = {_socket.AF_INET: 0, _socket.AF_INET6: 1}  # SMCPROTO_SMC, SMCPROTO_SMC6
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
# AF_SMC takes 64 KiB unasked, and does not grow it. A program may rely on TCP's patience with unread bytes.
_BUFFER_BYTES = 1 << 20


def _kernel_has(protocol: bytes) -> bool:
    """Whether the kernel has it now. To ask by socket() would wait for a module to be loaded."""
    try:
        descriptor = genuine.open(_PROTOCOLS, 0)
        try:
            told = b""
            while part := genuine.read(descriptor, 1 << 16):
                told += part
        finally:
            genuine.close(descriptor)
    except OSError:
        return False
    return any(line.startswith(protocol + b" ") for line in told.split(b"\n"))


class SdpTransport(Transport):
    name = "sdp"
    number = 4
    capabilities = Capability.OPENS_SOCKET

    def __init__(self) -> None:
        self._probed = False
        self._refused: Reason | None = None

    def usable(self) -> Reason | None:
        if not self._probed:
            self._refused = self._probe()
            self._probed = True
        return self._refused

    def _probe(self) -> Reason | None:
        if not _kernel_has(b"SMC"):
            return Reason.NO_KERNEL_SMC
        try:
            _socket.socket(AF_SMC, _socket.SOCK_STREAM, 0).close()
        except OSError:  # a filter of system calls forbids it
            return Reason.NO_KERNEL_SMC
        return None

    def open(self, family: int) -> int:
        made = _socket.socket(AF_SMC, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC, _SMC_PROTOCOLS[family])
        for option, forced in ((_socket.SO_SNDBUF, _SO_SNDBUFFORCE), (_socket.SO_RCVBUF, _SO_RCVBUFFORCE)):
            try:
                made.setsockopt(_socket.SOL_SOCKET, forced, _BUFFER_BYTES)
            except OSError:  # without the privilege: what net.core allows
                made.setsockopt(_socket.SOL_SOCKET, option, _BUFFER_BYTES)
        return made.detach()

    def owns(self, domain: int) -> bool:
        return domain == AF_SMC

    def carrier(self, descriptor: int) -> tuple[bool, str] | None:
        from .system import smc_diag

        try:
            told = smc_diag.look_up(genuine.fstat(descriptor).st_ino)
        except OSError as error:
            return True, f"AF_SMC: {error.strerror or error}"
        if told is None or told[0] == smc_diag.INIT:
            return None
        _, mode, reason, diagnosis = told
        if mode != smc_diag.FALLBACK:
            return True, smc_diag.MODES.get(mode, f"AF_SMC in mode {mode}")
        detail = f"AF_SMC fell back: {smc_diag.describe(reason)}"
        return False, detail + (f"; the other end says: {smc_diag.describe(diagnosis)}" if diagnosis else "")
