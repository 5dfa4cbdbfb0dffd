"""The checks of the device suite, one module for each concept."""
