"""`python -m interextra` is the command `interextra`."""

import sys

from interextra.cli import main

if __name__ == "__main__":
    sys.exit(main())
