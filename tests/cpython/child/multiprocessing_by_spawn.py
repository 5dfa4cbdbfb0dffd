"""CPython's multiprocessing tests with the start method spawn.

Stands in for test.test_multiprocessing_spawn: a file in some versions, a package
in others, and not installed at all by some releases of 3.11 and 3.12.
"""

from test import _test_multiprocessing

_test_multiprocessing.install_tests_in_module_dict(globals(), "spawn")
