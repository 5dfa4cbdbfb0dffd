"""The message passing interface, with mpi4py's names: ``from fastsock.mpj import MPI``.

The import initializes MPI, unless `fastsock.mpj.rc` says otherwise. Raises ImportError where the native core is
missing.
"""

# ruff: noqa: F401  (the names are the interface; without the core most of the modules cannot be imported)
from __future__ import annotations

from .. import core as _core

if not _core.available:
    raise ImportError(f"fastsock.mpj needs the native core: {_core.why_not}")

from . import ranks as _ranks
from .communicators import lifecycle as _lifecycle
from .communicators.comm import Comm
from .communicators.errhandler import ERRHANDLER_NULL, ERRORS_ABORT, ERRORS_ARE_FATAL, ERRORS_RETURN, Errhandler
from .communicators.group import GROUP_EMPTY, GROUP_NULL, Group
from .communicators.intercomm import Intercomm
from .communicators.intracomm import Intracomm
from .communicators.lifecycle import (
    Attach_buffer,
    Detach_buffer,
    Finalize,
    Flush_buffer,
    Iflush_buffer,
    Init,
    Init_thread,
    Is_finalized,
    Is_initialized,
    Is_thread_main,
    Query_thread,
)
from .communicators.session import SESSION_NULL, Session
from .communicators.topology import Cartcomm, Compute_dims, Distgraphcomm, Graphcomm, Topocomm
from .constants import *  # noqa: F403
from .datatypes import datatype as _datatype
from .datatypes import op as _op
from .datatypes._memory import (
    BOTTOM,
    BUFFER_AUTOMATIC,
    IN_PLACE,
    BottomType,
    BufferAutomaticType,
    InPlaceType,
    buffer,
    memory,
)
from .datatypes.allocation import Aint_add, Aint_diff, Alloc_mem, Free_mem, Get_address
from .datatypes.datatype import Datatype, _datatype_create, _datatype_decode, _typealign, _typecode
from .datatypes.op import Op
from .dynamic import calls as _dynamic
from .dynamic.names import Lookup_name, Publish_name, Unpublish_name
from .dynamic.opening import Close_port, Open_port
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
from .files.file import File
from .files.representations import Register_datarep
from .info import INFO_ENV, INFO_NULL, Info
from .introspection import _addressof, _handleof, _sizeof
from .messages.grequest import Grequest
from .messages.message import NO_PROC as _NO_PROC
from .messages.message import Message
from .messages.pickling import Pickle, pickle
from .messages.request import Prequest, Request
from .messages.status import Status
from .windows.win import Win

globals().update(_datatype.constants_by_name)
globals().update(_op.constants_by_name)

_typedict = _datatype.by_code
_typedict_c = _datatype.by_code_c
_typedict_f = _datatype.by_code_fortran
MPIException = Exception


def _comm_lock_table(comm: Comm) -> dict[object, object]:
    """Returns the locks of the calls on objects of a communicator."""
    locks: dict[object, object] = comm.ob.locks
    return locks


COMM_NULL = Comm.named(Comm.null, "COMM_NULL")
REQUEST_NULL = Request.named(Request.null, "REQUEST_NULL")
MESSAGE_NULL = Message.named(Message.null, "MESSAGE_NULL")
MESSAGE_NO_PROC = Message.named(_NO_PROC, "MESSAGE_NO_PROC")
WIN_NULL = Win.named(Win.null, "WIN_NULL")
FILE_NULL = File.named(File.null, "FILE_NULL")


def __getattr__(name: str) -> object:
    """COMM_WORLD and COMM_SELF of the calling thread's rank, where ranks are threads."""
    if name == "COMM_WORLD":
        return _lifecycle.predefined().everyone.constant
    if name == "COMM_SELF":
        return _lifecycle.predefined().alone.constant
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_lifecycle.initialize()
if not _ranks.are_threads():
    COMM_WORLD, COMM_SELF = _lifecycle.static_handles()
