"""`python -m isospace` is the command line."""

import sys

from isospace.cli import main

if __name__ == "__main__":
    sys.exit(main())
