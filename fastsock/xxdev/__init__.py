"""Message passing devices: matched messages between the ranks of a job.

    from fastsock import xxdev

    device = xxdev.Device.new_instance("iodev")
    device.init()
    if device.id() == 0:
        device.send({"any": "object"}, dst=1, tag=7)
    else:
        print(device.recv(None, src=xxdev.ANY_SOURCE, tag=7).value)
    device.finish()

docs/explanation/message-passing.md tells which device is for what, and how to write one.

Importing this package imports nothing else: the launcher of ranks starts with it.

device, request, status, errors    what programs use
iodev, ibvdev, sysvdev, smpdev     one device each
networked, connections, hello      what devices of processes share: connections on first use, and their proof
tcp_connections                    those that are made by TCP
outside, bonds                     ranks of other jobs
gaining                            how a connection of iodev that stays TCP goes into memory
framing                            what a message looks like
settings                           the FASTSOCK_MPJ_ variables
job/                               who the ranks are, and how they find each other

Above the socket class, below mpj. Tests: tests/xxdev.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .device import ANY_SOURCE, ANY_TAG, DEVICES, Device
    from .errors import Code, XxdevError
    from .request import Request
    from .status import Status

__all__ = ["ANY_SOURCE", "ANY_TAG", "DEVICES", "Code", "Device", "Request", "Status", "XxdevError"]

_HOMES = {"Code": "errors", "XxdevError": "errors", "Request": "request", "Status": "status"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    from .. import core

    if not core.available:
        raise ImportError(f"fastsock.xxdev needs the native core: {core.why_not}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'device')}"), name)
    globals()[name] = value
    return value
