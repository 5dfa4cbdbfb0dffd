# cython: language_level=3, freethreading_compatible=True
"""The unpacker of registered classes and of exceptions. No class is found but in the table; nothing is imported."""
cimport cython
from fastsock.rmi.codec._format cimport *
from fastsock.rmi.codec._memory cimport load_u32, load_u64, new_instance, new_tuple, set_field
from fastsock.rmi.codec._type_table cimport BUILTIN, EXCEPTIONS
from fastsock.rmi.codec._unpacking_values cimport ValueUnpacker, read_items

from contextlib import suppress

from fastsock.rmi.codec.unregistered import of_name
from fastsock.rmi.errors import BadFrame, LimitExceeded, VersionMismatch


cdef class Incoming:
    """A class, as a peer described it."""

    def __init__(self, kind, version, digest, names, classes):
        self.kind = kind
        self.version = version
        self.fields = names[1:]
        description = classes.by_name.get(names[0])
        self.failure = None  # why no instance can be made
        if description is None:
            description, why = of_name(classes, names[0])
            self.failure = why or None
        self.description = description
        self.cls = None if description is None else description.cls
        self.migrates = False
        if description is None:
            pass  # and that is the failure
        elif description.digest != digest:
            if description.migrate is not None and (description.kind == kind):
                self.migrates = True
            else:
                self.failure = _difference(description, kind, version, self.fields)
        elif description.kind != kind or description.fields != self.fields:
            raise BadFrame(f"the description of {names[0]!r} contradicts its digest")
        # the forms that are made without a function
        self.is_plain = self.failure is None and not self.migrates and kind in (FIELDS, TUPLE_CLASS)


def _difference(description, kind, version, fields):
    said = []
    if version != description.version:
        said.append(f"the peer's version is {version}, this end's is {description.version}")
    more = [name for name in fields if name not in description.fields]
    less = [name for name in description.fields if name not in fields]
    if more:
        said.append(f"only the peer's has {', '.join(more)}")
    if less:
        said.append(f"only this end's has {', '.join(less)}")
    if kind != description.kind:
        said.append("they are classes of different kinds")
    return (
        f"the class {description.name!r} differs at both ends: {'; '.join(said) or 'the order of the fields'}. "
        "Install the same version at both ends, or register it with version= and migrate="
    )


cdef class Broken:
    """Stands where a cached value could not be made."""

    def __init__(self, failure):
        self.failure = failure


cdef class ObjectUnpacker(SpecialUnpacker):
    """Makes instances of registered classes, exceptions and what references lead to."""

    def __init__(self, classes, references, trust_pickle, depth):
        ValueUnpacker.__init__(self, depth)
        self.classes = classes
        self.references = references
        self.trust_pickle = trust_pickle
        self.incoming = []
        self.cache = []

    cdef object read_other(self, int tag):
        if tag == CACHED:
            return self.read_cached()
        elif tag == NEW_CACHED:
            return self.read_new_cached()
        elif tag == PICKLE:
            return self.read_pickle()
        elif tag not in (EXCEPTION, REFERENCE):
            return self.read_special(tag)
        self.enter()
        value = self.read_exception() if tag == EXCEPTION else self.read_reference()
        self.leave()
        return value

    cdef object read_object(self, Py_ssize_t number):
        cdef Incoming known
        if number >= len(self.incoming):
            raise BadFrame(f"class {number} was never described: the peer described {len(self.incoming)}")
        known = self.incoming[number]
        if not known.is_plain:
            return self.read_other_object(known)
        if known.kind != FIELDS:
            self.enter()
            values = read_items(self, len(known.fields))
            self.leave()
            return self.number(new_tuple(known.cls, values))
        value = new_instance(known.cls)
        if self.numbers:
            self.numbered.append(value)
        self.enter()
        for name in known.fields:
            item = self.read()
            set_field(value, name, item)
        self.leave()
        return value

    @cython.final
    cdef object read_other_object(self, Incoming known):
        cdef Py_ssize_t place, index
        cdef int kind = known.kind
        if kind == FILLED:
            return self.read_filled(known)
        place = self.take_place() if kind == FIELDS else -1
        self.enter()
        if kind == MEMBERS:
            index = self.read_length()
            if index >= len(known.fields):
                raise BadFrame(f"an Enum has {len(known.fields)} members, and the peer names member {index}")
            state = known.fields[index]
        elif kind == FIELDS:
            state = {name: self.read() for name in known.fields}
        elif kind == RAISED:
            state = (self.read(), self.read(), self.read())
        elif kind in (STATE, FLAGS):
            state = self.read()
        else:
            state = read_items(self, len(known.fields))
            if known.migrates:
                state = dict(zip(known.fields, state, strict=False))
        self.leave()
        value = None
        if known.failure is not None:
            self.fail(VersionMismatch(known.failure))
        elif not self.failures:
            try:
                value = _make(known, state)
            except BadFrame:
                raise
            except Exception as error:
                self.fail(error)
        if kind == FIELDS:
            self.put_in_place(place, value)
        elif kind not in (MEMBERS, FLAGS):
            self.number(value)
        return value

    @cython.final
    cdef object read_filled(self, Incoming known):
        """An instance that is begun empty, for it may be within what it holds."""
        description = known.description
        value = description.begin() if known.failure is None else None
        self.number(value)
        self.enter()
        state = self.read()
        self.leave()
        if known.failure is not None:
            self.fail(VersionMismatch(known.failure))
        elif not self.failures:
            try:
                description.fill(value, state)
            except BadFrame:
                raise
            except Exception as error:
                self.fail(error)
        return value

    @cython.final
    cdef object read_new_cached(self):
        cdef Py_ssize_t failures
        cdef int tag
        cdef Py_ssize_t place = self.read_length()
        if place >= MOST_CACHED:
            raise BadFrame(f"a cached value has the place {place}, and there are {MOST_CACHED}")
        tag = self.next_tag()
        if not (0xC0 <= tag < 0xE0 or tag in (OBJECT, AGAIN, RECURSIVE)):
            raise BadFrame(f"a value of the tag {tag:#04x} is said to be cached, and only objects are")
        failures = self.failures
        value = self.read()
        if len(self.cache) <= place:
            self.cache.extend([None] * (place + 1 - len(self.cache)))
        self.cache[place] = Broken(self.failure or ValueError()) if self.failures > failures else value
        return value

    @cython.final
    cdef object read_cached(self):
        cdef Py_ssize_t place = self.read_length()
        value = self.cache[place] if place < len(self.cache) else None
        if value is None:
            raise BadFrame(f"the place {place} is said to hold a cached value, and holds none")
        if type(value) is Broken:
            self.fail(value.failure.with_traceback(None))
            return None
        return value

    @cython.final
    cdef object read_exception(self):
        name = self.read_str()
        made = EXCEPTIONS.get(name)
        if made is None:
            raise BadFrame(f"there is no builtin exception {name!r}")
        arguments = self.read()
        state = self.read()
        cause = self.read()
        value = None
        if not self.failures:
            if type(arguments) is not tuple:
                raise BadFrame(f"the arguments of an exception are {type(arguments).__name__}")
            value = made(*arguments)
            _restore(value, state, cause)
        return self.number(value)

    @cython.final
    cdef object read_reference(self):
        parts = self.read()
        if self.references is None or type(parts) is not tuple:
            raise BadFrame("a reference came, and this connection has none")
        if self.failures:
            return None
        return self.references.object_of(*parts)

    @cython.final
    cdef object read_pickle(self):
        if not self.trust_pickle:
            raise BadFrame("a pickle came, and only trust='pickle' at both ends allows one")
        pickled = self.take(self.read_length())
        import pickle

        try:
            return pickle.loads(pickled)
        except Exception as error:
            self.fail(error)
            return None

    @cython.final
    cdef int _begin_flagged(self, int flags) except -1:
        cdef Py_ssize_t end, size
        if flags & ~(DESCRIPTIONS | FORGET | REPEATS):
            raise BadFrame(f"the flags of a body are {flags:#04x}, which no version of fastsock sets")
        if flags & FORGET:
            self.incoming = []
        if flags & DESCRIPTIONS:
            end = self.limit - 4
            if end < 1:
                self._short()
            size = load_u32(self.data, end)
            if size > end - 1:
                self._short()
            self.limit = end
            self.at = end - size
            try:
                while self.at < end:
                    self._read_description()
            except (ValueError, IndexError) as error:
                raise BadFrame(f"the description of a class cannot be read: {error}") from error
            self.limit = end - size
            self.at = 1

    @cython.final
    cdef int _read_description(self) except -1:
        if len(self.incoming) >= MOST_CLASSES:
            raise LimitExceeded(f"the peer described more than {MOST_CLASSES} classes")
        self.need(13)
        kind = self.data[self.at]
        version = load_u32(self.data, self.at + 1)
        digest = load_u64(self.data, self.at + 5)
        self.at += 13
        names = tuple(self.take(self.read_length()).decode("utf-8", "surrogatepass").split("\0"))
        if kind > FILLED:
            raise BadFrame(f"the class {names[0]!r} is of the kind {kind}, which does not exist")
        self.incoming.append(Incoming(kind, version, digest, names, self.classes))


def _make(known, state):
    """An instance out of what was packed of it."""
    description = known.description
    cls = known.cls
    kind = known.kind
    if known.migrates:
        state = description.migrate(state, known.version)
    if kind == FIELDS:
        value = new_instance(cls)
        for name in description.fields:
            set_field(value, name, state[name])
        return value
    if kind == MEMBERS:
        return cls.__members__[state]
    if kind == FLAGS:
        return cls(state)
    if kind == STATE:
        return description.unpack(state)
    if kind == RAISED:
        arguments, attributes, cause = state
        if type(arguments) is not tuple:
            raise BadFrame(f"the arguments of an exception are {type(arguments).__name__}")
        value = cls.__new__(cls, *arguments)
        _initialize(value, arguments)
        _restore(value, attributes, cause)
        return value
    if known.migrates:
        state = [state[name] for name in description.fields]
    return tuple.__new__(cls, state)


def _initialize(value, arguments):
    """As the builtin class does: some keep more than the arguments. The class's own `__init__` may want others."""
    base = next(each for each in type(value).__mro__ if each in BUILTIN)
    if base.__init__ is not BaseException.__init__ and not (isinstance(value, OSError) and value.errno is not None):
        with suppress(TypeError):  # they are not those of the builtin class: then it kept nothing
            base.__init__(value, *arguments)
    if not isinstance(value, OSError):
        value.args = arguments


def _restore(value, state, cause):
    """Attributes and cause of an exception. Attributes that Python itself reads are not a peer's to set."""
    if state is not None:
        if type(state) is not dict:
            raise BadFrame(f"the attributes of an exception are {type(state).__name__}")
        for name, item in state.items():
            if type(name) is not str:
                raise BadFrame(f"an attribute of an exception has the name {name!r}")
            if name == "__notes__":
                if type(item) is not list:
                    raise BadFrame("the notes of an exception are no list")
            elif name.startswith("__"):
                raise BadFrame(f"an exception has the attribute {name}")
            setattr(value, name, item)
    if cause is not None:
        if not isinstance(cause, BaseException):
            raise BadFrame(f"the cause of an exception is {type(cause).__name__}")
        value.__cause__ = cause
