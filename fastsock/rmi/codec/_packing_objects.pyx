# cython: language_level=3, freethreading_compatible=True
"""The packer of registered classes, which are described once and then are numbers, and of exceptions."""
cimport cython
from fastsock.rmi.codec._format cimport *
from fastsock.rmi.codec._memo cimport memo_get
from fastsock.rmi.codec._memory cimport plain_tuple, store_32, store_64
from fastsock.rmi.codec._packing_values cimport ValuePacker
from fastsock.rmi.codec._type_table cimport BUILTIN

import builtins

from fastsock.rmi.codec._type_table import name_of, tag_of
from fastsock.rmi.codec.derived import slots_of
from fastsock.rmi.codec.refusals import refusal
from fastsock.rmi.codec.unregistered import of_import, of_library
from fastsock.rmi.errors import LimitExceeded, NotPackable, RemoteError, VersionMismatch, text_of


cdef class Outgoing:
    """A class, as one packer announces it."""

    def __init__(self, description):
        self.description = description
        self.kind = description.kind
        self.fields = description.fields
        self.cached = description.cache
        self.number = NEW


cdef class ObjectPacker(SpecialPacker):
    """Packs instances of registered classes, exceptions and references."""

    def __init__(self, classes, references, trust_pickle, depth, without):
        ValuePacker.__init__(self, depth, "array-memory" not in without, "early-detection" not in without)
        self.classes = classes
        self.references = references
        self.trust_pickle = trust_pickle
        self.caches = "cache" not in without
        self.finds_classes = True  # that nobody registered, as the other end does
        self.plans = dict(BUILTIN)  # type to tag or Outgoing
        self.class_count = 0
        self.announced = []  # in this frame
        self.places = {}  # id of a cached value to its place
        self.cached = []  # the values by place
        self.next_place = 0
        self.filled = []  # places, in this frame

    cdef int write_other(self, object value, object kind) except -1:
        plan = self.plans.get(kind)
        if type(plan) is Outgoing:
            self.write_object(value, plan)
        elif plan is None:
            self.write_unknown(value, kind)
        elif plan == EXCEPTION:
            self.write_exception(value, kind)
        else:
            self.write_special(value, kind, plan)

    @cython.final
    cdef int write_object(self, object value, Outgoing known) except -1:
        cdef Py_ssize_t place
        if known.number < 0:
            self._announce(known)
        if not (known.cached and self.caches):
            self.write_instance(value, known)
        elif id(value) in self.places:
            self.put(CACHED)
            self.put_length(self.places[id(value)])
        else:
            place = self.next_place % MOST_CACHED
            self.next_place += 1
            self.put(NEW_CACHED)
            self.put_length(place)
            self.write_instance(value, known)
            self._keep(value, place)

    @cython.final
    cdef int _keep(self, object value, Py_ssize_t place) except -1:
        if place < len(self.cached):
            older = self.cached[place]
            if older is not None:
                self.places.pop(id(older), None)
        else:
            self.cached.extend([None] * (place + 1 - len(self.cached)))
        self.cached[place] = value
        self.places[id(value)] = place
        self.filled.append(place)

    @cython.final
    cdef int write_instance(self, object value, Outgoing known) except -1:
        cdef Py_ssize_t before
        cdef int kind = known.kind
        if kind == FIELDS:
            self.write_fields(value, known.number, known.fields)
        elif kind == MEMBERS:
            self.put_class(known.number)
            self.put_length(known.fields.index(value._name_))
        elif kind == FLAGS:
            self.put_class(known.number)
            self.write(value._value_)
        elif kind == FILLED:
            self.write_filled(value, known)
        elif not self.was_written(value):
            if kind == STATE or kind == RAISED:
                self.write_made_of(value, known)
            else:
                before = self.at
                self.put_class(known.number)
                self.enter()
                for item in plain_tuple(value):
                    self.write(item)
                self.leave()
                self.end_tuple(value, before)

    @cython.final
    cdef int write_filled(self, object value, Outgoing known) except -1:
        """An instance that is begun empty there, and has its number before what it holds."""
        if not self.is_again(value):
            self.count += 1
            self.put_class(known.number)
            self.enter()
            self.write_made(known.description.pack(value))
            self.leave()

    @cython.final
    cdef int write_made_of(self, object value, Outgoing known) except -1:
        """An instance that is made again by a function."""
        self.remember_open(value)
        self.put_class(known.number)
        self.enter()
        if known.kind == STATE:
            self.write_made(known.description.pack(value))
        else:
            self.write_reduced(value)
        self.leave()
        self.remember(value)
        self.count += 1

    @cython.final
    cdef int write_made(self, object value) except -1:
        """What was made for the packer alone. It is kept while the frame is packed, so that its identity is its own."""
        self.made.append(value)
        self.write(value)

    @cython.final
    cdef int _forget_classes(self) except -1:
        cdef Outgoing outgoing
        for plan in self.plans.values():
            if type(plan) is Outgoing:
                outgoing = plan
                outgoing.number = NEW
        self.class_count = 0

    @cython.final
    cdef int _announce(self, Outgoing known) except -1:
        if self.class_count >= MOST_CLASSES:
            raise LimitExceeded(f"more than {MOST_CLASSES} classes on one connection")
        known.number = self.class_count
        self.class_count += 1
        self.announced.append(known)

    @cython.final
    cdef int _describe(self) except -1:
        cdef Outgoing known
        self.data[self.first] |= DESCRIPTIONS
        cdef Py_ssize_t began = self.at
        for known in self.announced:
            description = known.description
            text = "\0".join((description.name, *description.fields)).encode("utf-8", "surrogatepass")
            self.ready()
            self.put(description.kind)
            store_32(self.data, self.at, description.version)
            store_64(self.data, self.at + 4, description.digest)
            self.at += 12
            self.put_bytes(text, len(text))
        self.ready()
        store_32(self.data, self.at, self.at - began)
        self.at += 4

    @cython.final
    cdef int write_exception(self, object value, object kind) except -1:
        if not self.was_written(value):
            self.remember_open(value)
            self.put(EXCEPTION)
            self.enter()
            self.write_str(kind.__name__)
            self.write_reduced(value)
            self.leave()
            self.remember(value)
            self.count += 1

    @cython.final
    cdef int write_reduced(self, object value) except -1:
        """Arguments, attributes and cause of an exception, as its builtin class tells them: files of an OSError too."""
        base = builtin_class(type(value))
        reduced = base.__reduce__(value)
        arguments = reduced[1]
        state = reduced[2] if len(reduced) > 2 else None
        if type(value) is not base:
            state = {**(state or {}), **slots_of(value, base)}
        if isinstance(value, _GROUP):
            arguments = (value.message, [self.stand_in(member) for member in value.exceptions])
        self.write_made(arguments)
        self.write_state(state)
        self.write_cause(value)

    @cython.final
    cdef object stand_in(self, object member):
        """A member of a group. One of a class that cannot travel leaves its name and text."""
        if not self.finds_classes or self.travels(type(member)):
            return member
        made = RemoteError(name_of(type(member)), text_of(member))
        made.__cause__ = member.__cause__
        return made

    @cython.final
    cdef bint travels(self, object kind) except -1:
        """Whether the class of an exception can travel."""
        return kind in self.plans or self.find_plan(kind) is not None or self.find_of_library(kind) is not None

    @cython.final
    cdef int write_state(self, object state) except -1:
        """Attributes of an exception, its notes among them."""
        self.write_made(dict(state) if state else None)

    @cython.final
    cdef int write_cause(self, object value) except -1:
        """Why it was raised, if it says so. A class that cannot travel leaves its name and text."""
        cause = value.__cause__
        if cause is not None and memo_get(self.memo, cause) == OPEN:
            cause = None
        if cause is not None and not self.travels(type(cause)):
            made = Exception(f"{name_of(type(cause))}: {text_of(cause)}")
            made.__cause__ = cause.__cause__
            cause = made
        self.write_made(cause)

    @cython.final
    cdef int write_unknown(self, object value, object kind) except -1:
        """A type that this packer has not met."""
        if self.find_plan(kind) is not None:
            self.write_other(value, kind)
        else:
            reference = self.references.number_of(value) if self.references is not None else None
            if reference is not None:
                self.put(REFERENCE)
                self.enter()
                self.write_made(reference)
                self.leave()
            elif self.find_of_library(kind) is not None:
                self.write_other(value, kind)
            elif self.trust_pickle:
                import pickle

                pickled = pickle.dumps(value, 5)
                self.put(PICKLE)
                self.put_bytes(pickled, len(pickled))
            elif self.find_of_import(kind) is not None:
                self.write_other(value, kind)
            else:
                raise NotPackable(refusal(kind))

    @cython.final
    cdef object find_plan(self, object kind):
        description = self.classes.by_class.get(kind)
        plan = tag_of(kind) if description is None else Outgoing(description)
        if plan is not None:
            self.plans[kind] = plan
        return plan

    @cython.final
    cdef object find_of_library(self, object kind):
        """The plan of a class that a library registers, or that every process finds by its name."""
        if not self.finds_classes:
            return None
        try:
            description = of_library(self.classes, kind)
        except VersionMismatch as error:
            raise NotPackable(f"{name_of(kind)} cannot be sent: {error}") from None
        return self._plan(kind, description)

    @cython.final
    cdef object find_of_import(self, object kind):
        """The plan of a class that a process which has imported it finds by its name."""
        return self._plan(kind, of_import(self.classes, kind)) if self.finds_classes else None

    @cython.final
    cdef object _plan(self, object kind, object description):
        if description is None:
            return None
        plan = self.plans[kind] = Outgoing(description)
        return plan


_GROUP = getattr(builtins, "BaseExceptionGroup", ())


def builtin_class(kind):
    """The builtin class of an exception, whose functions know its state."""
    return next(each for each in kind.__mro__ if each in BUILTIN)
