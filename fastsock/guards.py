"""Descriptor numbers keep their meaning also where nobody called install(): from the first fast connection on."""

from __future__ import annotations

from .patching import Patches

patches = Patches()


def activate() -> None:
    """Lets os.read, os.sendfile, subprocess and their kin know fast descriptors, unless install() did already."""
    import socket as standard

    from . import descriptors, handover, installation, registry

    if installation.installed():
        return
    descriptors.patch(patches, registry)
    handover.patch(patches, registry)
    handover.patch_sendmsg(patches, standard.socket, registry)
