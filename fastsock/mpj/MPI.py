"""Message Passing Interface."""

# ruff: noqa: F401  (the names are the interface)
from __future__ import annotations

from .. import core as _core
from . import datatype as _datatype
from . import op as _op
from ._memory import BOTTOM, BUFFER_AUTOMATIC, IN_PLACE, BottomType, BufferAutomaticType, InPlaceType, buffer, memory
from .allocation import Aint_add, Aint_diff, Alloc_mem, Free_mem, Get_address
from .constants import *  # noqa: F403
from .datatype import Datatype, _datatype_create, _datatype_decode, _typealign, _typecode
from .environment import (
    Get_abi_fortran_info,
    Get_abi_info,
    Get_abi_version,
    Get_hw_resource_info,
    Get_library_version,
    Get_processor_name,
    Get_version,
    Pcontrol,
    Wtick,
    Wtime,
    get_vendor,
)
from .errhandler import ERRHANDLER_NULL, ERRORS_ABORT, ERRORS_ARE_FATAL, ERRORS_RETURN, Errhandler
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
from .info import INFO_ENV, INFO_NULL, Info
from .introspection import _addressof, _handleof, _sizeof
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
