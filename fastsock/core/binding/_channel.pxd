from ._channel_bytes cimport ChannelBytes


cdef class Channel(ChannelBytes):
    cdef object receive_small_first(self, Py_ssize_t bufsize, int flags)
