# cython: language_level=3, freethreading_compatible=True
"""How a server of managers.py answers what one thread of a client asks."""
from fastsock.rmi.pickled._messages cimport Connection, Pickled, loaded

import traceback

LOST = (EOFError, OSError)


def serve(server, Connection connection):
    """Answers until the connection is lost, or the server stops."""
    cdef Pickled packed
    stopping = server.stop_event.is_set
    while not stopping():
        try:
            body, buffers = connection.receive()
            try:
                request = loaded(body, buffers)
            except Exception:
                answer = "#TRACEBACK", traceback.format_exc()
            else:
                answer = _answer(server, connection, request)
                request = None  # an argument may be the last reference to what it is
            body = buffers = None
            try:
                packed = connection.pickled(answer)
            except Exception:
                packed = connection.pickled(("#UNSERIALIZABLE", traceback.format_exc()))
            answer = None
            connection.send_pickled(packed)
            packed = None
        except LOST:
            return


cdef object _answer(object server, Connection connection, object request):
    found = None
    try:
        ident, name, arguments, keywords = request
        if ident is None:
            if name not in server.public:
                raise AssertionError(f"{name!r} unrecognized")
            return "#RETURN", getattr(server, name)(connection, *arguments, **keywords)
        found, exposed, method_to_typeid = server.id_to_obj[ident]
        if name not in exposed:
            fallback = server.fallback_mapping.get(name)
            if fallback is None:
                raise AttributeError(f"method {name!r} of {type(found)!r} object is not in exposed={exposed!r}")
            return "#RETURN", fallback(server, connection, ident, found, *arguments, **keywords)
        method = getattr(found, name)
    except Exception:
        return "#TRACEBACK", traceback.format_exc()
    try:
        value = method(*arguments, **keywords)
    except Exception as error:
        trace = error.__traceback__
        packed = traceback.format_exception(type(error), error, trace.tb_next if trace is not None else None)
        return "#ERROR", (error.with_traceback(None), "".join(packed))
    if not method_to_typeid or name not in method_to_typeid:
        return "#RETURN", value
    try:
        return server.proxied(connection, method_to_typeid[name], value)
    except Exception:
        return "#TRACEBACK", traceback.format_exc()
