"""Compares CPython's own tests, run plain and run under the launcher, test by test."""
