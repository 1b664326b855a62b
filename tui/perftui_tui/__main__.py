"""`python -m perftui_tui` is `perftui`."""

import sys

from perftui_tui.cli import main

if __name__ == "__main__":
    sys.exit(main())
