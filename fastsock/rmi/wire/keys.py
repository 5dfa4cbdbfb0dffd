"""The key of this user (system/user_key.py), with the errors of remote calls."""

from __future__ import annotations

from ...system import user_key
from ..errors import Refused


def key_of(given: str | bytes | None = None) -> bytes:
    """The key to use: the one given, else that of the environment, else that of the user's file, which may be made.

    Raises Refused where the key is shorter than 16 bytes, or the file is another user's, or others may read it.
    """
    try:
        return user_key.key_of(given)
    except user_key.KeyRefused as error:
        raise Refused(str(error)) from error
