"""CPython's own tests of managers, with fastsock.rmi.managers in the place of multiprocessing's.

python tests/rmi/cpython_managers.py fork|spawn|forkserver
"""

from __future__ import annotations

import multiprocessing.managers
import os
import sys
import unittest

import fastsock.rmi.managers

KIND = "TESTS_OF_MANAGERS"  # how processes begin, in the environment of those that import this program again
EXCLUDED = {
    "test_rapid_restart": "serializer='xmlrpclib' is refused",
    "test_remote": "serializer='xmlrpclib' is refused",
}

if __name__ == "__main__":
    os.environ[KIND] = sys.argv[1]
sys.modules["multiprocessing.managers"] = fastsock.rmi.managers
multiprocessing.managers = fastsock.rmi.managers
from test import _test_multiprocessing as theirs  # noqa: E402  # it takes names of the module above

theirs.install_tests_in_module_dict(globals(), os.environ[KIND])


def wanted():
    """Those that use managers."""
    loader = unittest.TestLoader()
    suite = unittest.TestSuite()
    for kind in [each for each in globals().values() if isinstance(each, type) and issubclass(each, unittest.TestCase)]:
        if "Manager" in kind.__name__:
            names = [name for name in loader.getTestCaseNames(kind) if name not in EXCLUDED]
            suite.addTests(kind(name) for name in names)
    return suite


def main():
    setUpModule()  # noqa: F821  # installed above
    try:
        result = unittest.TextTestRunner(verbosity=0).run(wanted())
    finally:
        tearDownModule()  # noqa: F821
    return 0 if result.wasSuccessful() and result.testsRun else 1


if __name__ == "__main__":
    sys.exit(main())
