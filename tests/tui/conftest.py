"""The terminal that these tests see: colours, no animations."""

import os

os.environ["TEXTUAL_ANIMATIONS"] = "none"
os.environ.pop("NO_COLOR", None)
os.environ.pop("TEXTUAL_THEME", None)
