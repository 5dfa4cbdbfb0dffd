# What the codec does to memory, and to objects that it knows from within.
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memmove, memset

cdef extern from "Python.h":
    enum: PyBUF_SIMPLE
    int64_t word_of "PyLong_AsLongLongAndOverflow"(object, int *) except? -1
    Py_buffer *PyMemoryView_GET_BUFFER(object)
    int PyObject_GetBuffer(object, Py_buffer *, int) except -1
    void PyBuffer_Release(Py_buffer *)
    int set_field "PyObject_GenericSetAttr" (object, object, object) except -1

cdef extern from *:
    """
    #include <string.h>
    #include <datetime.h>

    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define little_16(word) __builtin_bswap16(word)
    #define little_32(word) __builtin_bswap32(word)
    #define little_64(word) __builtin_bswap64(word)
    #else
    #define little_16(word) (word)
    #define little_32(word) (word)
    #define little_64(word) (word)
    #endif

    /* One reference of the container, one of the loop over it; of what is in none, one of whoever packs it. */
    #ifdef Py_GIL_DISABLED
    #define is_shared(value, level) ((void)(value), (void)(level), 1) /* other threads count for themselves */
    #else
    #define is_shared(value, level) (Py_REFCNT(value) > ((level) == 0 ? 1 : 2))
    #endif

    static PyObject *codec_no_arguments;
    static inline PyObject *new_instance(PyObject *made) {
        if (codec_no_arguments == NULL && (codec_no_arguments = PyTuple_New(0)) == NULL) return NULL;
        return PyBaseObject_Type.tp_new((PyTypeObject *)made, codec_no_arguments, NULL);
    }

    static inline PyObject *new_tuple(PyObject *made, PyObject *values) {
        PyObject *arguments = PyTuple_Pack(1, values), *value;
        if (arguments == NULL) return NULL;
        value = PyTuple_Type.tp_new((PyTypeObject *)made, arguments, NULL);
        Py_DECREF(arguments);
        return value;
    }

    /* A short string keeps its UTF-8, so it is encoded once. -1: it is long, or has surrogates. */
    #define CODEC_KEEPS_UTF8 256
    static inline Py_ssize_t utf8_size(PyObject *text) {
        Py_ssize_t size = PyUnicode_GET_LENGTH(text);
        if (PyUnicode_IS_COMPACT_ASCII(text)) return size;
        if (size > CODEC_KEEPS_UTF8) return -1;
        if (PyUnicode_AsUTF8AndSize(text, &size) == NULL) {
            PyErr_Clear();
            return -1;
        }
        return size;
    }

    static inline void copy_utf8(unsigned char *data, Py_ssize_t at, PyObject *text, Py_ssize_t size) {
        const void *from = PyUnicode_IS_COMPACT_ASCII(text) ? PyUnicode_DATA(text) : PyUnicode_AsUTF8(text);
        memcpy(data + at, from, (size_t)size);
    }

    static inline int codec_is_ascii(const unsigned char *text, Py_ssize_t size) {
        uint64_t seen = 0, word;
        for (; size >= 8; text += 8, size -= 8) {
            memcpy(&word, text, 8);
            seen |= word;
        }
        for (; size > 0; text++, size--) seen |= *text;
        return (seen & 0x8080808080808080u) == 0;
    }

    static inline PyObject *text_at(const unsigned char *data, Py_ssize_t at, Py_ssize_t size) {
        const unsigned char *text = data + at;
        if (size > 1 && codec_is_ascii(text, size)) {
            PyObject *value = PyUnicode_New(size, 127);
            if (value != NULL) memcpy(PyUnicode_DATA(value), text, (size_t)size);
            return value;
        }
        return PyUnicode_DecodeUTF8((const char *)text, size, "surrogatepass");
    }

    /* Keys of dicts come again and again: those seen last are kept, with their hash. 2 to 31 bytes of ASCII. */
    #define CODEC_KEYS 256
    static inline PyObject *known_key(PyObject **keys, const unsigned char *text, Py_ssize_t size) {
        uint64_t hash = (uint64_t)size * 0x9E3779B97F4A7C15u;
        PyObject **place, *key;
        for (Py_ssize_t at = 0; at < size; at++) hash = (hash ^ text[at]) * 0x100000001B3u;
        place = &keys[(hash >> 24) % CODEC_KEYS];
        key = *place;
        if (key != NULL && PyUnicode_GET_LENGTH(key) == size && memcmp(PyUnicode_DATA(key), text, (size_t)size) == 0) {
            Py_INCREF(key);
            return key;
        }
        key = text_at(text, 0, size);
        if (key != NULL && PyUnicode_IS_COMPACT_ASCII(key)) {
            PyObject *older = *place;
            Py_INCREF(key);
            *place = key;
            Py_XDECREF(older);
        }
        return key;
    }

    #define codec_times() (PyDateTimeAPI != NULL || (PyDateTime_IMPORT, PyDateTimeAPI != NULL))

    static inline int store_date(unsigned char *data, Py_ssize_t at, PyObject *value) {
        data[at] = PyDateTime_GET_YEAR(value) & 0xFF;
        data[at + 1] = (unsigned char)(PyDateTime_GET_YEAR(value) >> 8);
        data[at + 2] = PyDateTime_GET_MONTH(value);
        data[at + 3] = PyDateTime_GET_DAY(value);
        return 0;
    }

    static inline int store_clock(unsigned char *data, Py_ssize_t at, PyObject *value) {
        uint32_t last;
        if (!codec_times()) return -1;
        if (PyDateTime_Check(value)) {
            data[at] = PyDateTime_DATE_GET_HOUR(value);
            data[at + 1] = PyDateTime_DATE_GET_MINUTE(value);
            data[at + 2] = PyDateTime_DATE_GET_SECOND(value);
            last = (uint32_t)PyDateTime_DATE_GET_MICROSECOND(value) | (uint32_t)PyDateTime_DATE_GET_FOLD(value) << 31;
        } else {
            data[at] = PyDateTime_TIME_GET_HOUR(value);
            data[at + 1] = PyDateTime_TIME_GET_MINUTE(value);
            data[at + 2] = PyDateTime_TIME_GET_SECOND(value);
            last = (uint32_t)PyDateTime_TIME_GET_MICROSECOND(value) | (uint32_t)PyDateTime_TIME_GET_FOLD(value) << 31;
        }
        last = little_32(last);
        memcpy(data + at + 3, &last, 4);
        return 0;
    }

    static inline int is_utc(PyObject *zone) {
        return codec_times() && zone == PyDateTimeAPI->TimeZone_UTC;
    }

    static inline PyObject *make_date(const unsigned char *data, Py_ssize_t at) {
        const unsigned char *said = data + at;
        if (!codec_times()) return NULL;
        return PyDateTimeAPI->Date_FromDate(said[0] | said[1] << 8, said[2], said[3], PyDateTimeAPI->DateType);
    }

    static inline uint32_t codec_last(const unsigned char *clock) {
        uint32_t last;
        memcpy(&last, clock + 3, 4);
        return little_32(last);
    }

    static inline int codec_is_zone(PyObject *zone) {
        if (zone == Py_None || PyTZInfo_Check(zone)) return 1;
        PyErr_SetString(PyExc_TypeError, "a time has a zone that is none");
        return 0;
    }

    static inline PyObject *make_datetime(const unsigned char *data, Py_ssize_t at, PyObject *zone) {
        const unsigned char *said = data + at;
        uint32_t last = codec_last(said + 4);
        if (!codec_times() || !codec_is_zone(zone)) return NULL;
        return PyDateTimeAPI->DateTime_FromDateAndTimeAndFold(said[0] | said[1] << 8, said[2], said[3], said[4], said[5],
            said[6], (int)(last & 0x7FFFFFFF), zone, (int)(last >> 31), PyDateTimeAPI->DateTimeType);
    }

    static inline PyObject *make_clock(const unsigned char *data, Py_ssize_t at, PyObject *zone) {
        const unsigned char *said = data + at;
        uint32_t last = codec_last(said);
        if (!codec_times() || !codec_is_zone(zone)) return NULL;
        return PyDateTimeAPI->Time_FromTimeAndFold(said[0], said[1], said[2], (int)(last & 0x7FFFFFFF), zone,
            (int)(last >> 31), PyDateTimeAPI->TimeType);
    }
    """
    uint16_t little_16(uint16_t) noexcept
    uint32_t little_32(uint32_t) noexcept
    uint64_t little_64(uint64_t) noexcept
    bint is_shared(object, Py_ssize_t) noexcept
    enum: CODEC_KEYS
    object new_instance(object)
    object new_tuple(object, tuple)
    object text_at(const unsigned char *, Py_ssize_t, Py_ssize_t)
    Py_ssize_t utf8_size(object) noexcept
    void copy_utf8(unsigned char *, Py_ssize_t, object, Py_ssize_t) noexcept
    object known_key(PyObject **, const unsigned char *, Py_ssize_t)
    int store_date(unsigned char *, Py_ssize_t, object) except -1
    int store_clock(unsigned char *, Py_ssize_t, object) except -1
    bint is_utc(object) noexcept
    object make_date(const unsigned char *, Py_ssize_t)
    object make_datetime(const unsigned char *, Py_ssize_t, object)
    object make_clock(const unsigned char *, Py_ssize_t, object)


cdef inline void store_16(unsigned char *data, Py_ssize_t at, int64_t value) noexcept:
    cdef uint16_t word = little_16(<uint16_t>value)
    memcpy(data + at, &word, 2)

cdef inline void store_32(unsigned char *data, Py_ssize_t at, int64_t value) noexcept:
    cdef uint32_t word = little_32(<uint32_t>value)
    memcpy(data + at, &word, 4)

cdef inline void store_64(unsigned char *data, Py_ssize_t at, uint64_t value) noexcept:
    cdef uint64_t word = little_64(value)
    memcpy(data + at, &word, 8)

cdef inline void store_double(unsigned char *data, Py_ssize_t at, double value) noexcept:
    cdef uint64_t word
    memcpy(&word, &value, 8)
    store_64(data, at, word)

cdef inline uint16_t load_u16(const unsigned char *data, Py_ssize_t at) noexcept:
    cdef uint16_t word
    memcpy(&word, data + at, 2)
    return little_16(word)

cdef inline uint32_t load_u32(const unsigned char *data, Py_ssize_t at) noexcept:
    cdef uint32_t word
    memcpy(&word, data + at, 4)
    return little_32(word)

cdef inline uint64_t load_u64(const unsigned char *data, Py_ssize_t at) noexcept:
    cdef uint64_t word
    memcpy(&word, data + at, 8)
    return little_64(word)

cdef inline int16_t load_i16(const unsigned char *data, Py_ssize_t at) noexcept:
    return <int16_t>load_u16(data, at)

cdef inline int32_t load_i32(const unsigned char *data, Py_ssize_t at) noexcept:
    return <int32_t>load_u32(data, at)

cdef inline int64_t load_i64(const unsigned char *data, Py_ssize_t at) noexcept:
    return <int64_t>load_u64(data, at)

cdef inline double load_double(const unsigned char *data, Py_ssize_t at) noexcept:
    cdef uint64_t word = load_u64(data, at)
    cdef double value
    memcpy(&value, &word, 8)
    return value

cdef inline int copy_in(unsigned char *data, Py_ssize_t at, object source, Py_ssize_t size) except -1:
    cdef Py_buffer view
    if type(source) is bytes:
        memcpy(data + at, PyBytes_AS_STRING(source), size)
        return 0
    PyObject_GetBuffer(source, &view, PyBUF_SIMPLE)
    if view.len != size:
        PyBuffer_Release(&view)
        raise RuntimeError("a buffer changed its size while it was packed")
    memcpy(data + at, view.buf, size)
    PyBuffer_Release(&view)
    return 0

cdef inline void move_up(unsigned char *data, Py_ssize_t at, Py_ssize_t end) noexcept:
    memmove(data + at + 1, data + at, end - at)

cdef inline const unsigned char *memory_of(object view) noexcept:
    return <const unsigned char *>PyMemoryView_GET_BUFFER(view).buf

cdef inline const unsigned char *memory_within(bytearray memory, Py_ssize_t at, Py_ssize_t size) noexcept:
    return <const unsigned char *>PyByteArray_AS_STRING(memory) + at

cdef inline tuple plain_tuple(object value):
    return (<tuple>value)[:]


cdef inline PyObject **new_keys() noexcept:
    return NULL  # made when the first key comes


cdef inline void free_keys(PyObject **keys) noexcept:
    cdef Py_ssize_t at
    if keys != NULL:
        for at in range(CODEC_KEYS):
            if keys[at] != NULL:
                Py_DECREF(<object>keys[at])
        PyMem_Free(keys)
