"""Messages between two ranks, of memory and of objects, and the requests that stand for them.

point_to_point, objects the calls in upper and in lower case; _point_to_point: the usual ones natively, with what their
                        requests stand for (_operations), objects (_objects) and waiting (_requests)
operation_records       what requests stand for; request: the handles
message, status         matched messages, and what is known of one that arrived (_status: its fields)
buffered, partitioned   sends with a buffer of the program's, and in parts
grequest                requests of the program's own
pickling                messages of objects; _plain: of small ones without pickle

Above datatypes, below collectives. Tests: tests/mpj/test_requests.py, test_waiting.py, test_probes.py, test_objects.py,
test_messages_of_objects.py.
"""
