"""Message Passing Interface."""

from __future__ import annotations

from .. import core as _core
from . import datatype as _datatype
from . import op as _op
from ._memory import BOTTOM, BUFFER_AUTOMATIC, IN_PLACE, BottomType, BufferAutomaticType, InPlaceType, buffer, memory
from .constants import *  # noqa: F403
from .datatype import Datatype, _datatype_create, _datatype_decode, _typealign, _typecode
from .environment import (
    Get_library_version,
    Get_processor_name,
    Get_version,
    Wtick,
    Wtime,
    get_vendor,
)
from .exceptions import (
    Add_error_class,
    Add_error_code,
    Add_error_string,
    Exception,
    Get_error_class,
    Get_error_string,
    Remove_error_class,
    Remove_error_code,
    Remove_error_string,
)
from .group import GROUP_EMPTY, GROUP_NULL, Group
from .op import Op
from .status import Status

if not _core.available:
    raise ImportError(f"fastsock.mpj needs the native core: {_core.why_not}")

globals().update(_datatype.constants_by_name)
globals().update(_op.constants_by_name)

_typedict = _datatype.by_code
_typedict_c = _datatype.by_code_c
_typedict_f = _datatype.by_code_fortran
MPIException = Exception

__all__ = [
    "BOTTOM",
    "BUFFER_AUTOMATIC",
    "GROUP_EMPTY",
    "GROUP_NULL",
    "IN_PLACE",
    "Add_error_class",
    "Add_error_code",
    "Add_error_string",
    "BottomType",
    "BufferAutomaticType",
    "Datatype",
    "Exception",
    "Get_error_class",
    "Get_error_string",
    "Get_library_version",
    "Get_processor_name",
    "Get_version",
    "Group",
    "InPlaceType",
    "Op",
    "Remove_error_class",
    "Remove_error_code",
    "Remove_error_string",
    "Status",
    "Wtick",
    "Wtime",
    "_datatype_create",
    "_datatype_decode",
    "_typealign",
    "_typecode",
    "buffer",
    "get_vendor",
    "memory",
]
