"""The command `fastsock`, also as ``python -m fastsock``: see command/."""

from .command import main

if __name__ == "__main__":
    main()
