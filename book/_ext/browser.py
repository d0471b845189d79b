"""A headless browser.

``CHROMIUM`` names it. Unset, a browser on the path is taken; empty, or where there is none,
Playwright's own.
"""

import os
import shutil


def chromium():
    found = map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])
    return os.environ.get("CHROMIUM", next(filter(None, found), None)) or None


def launch(play):
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    return play.chromium.launch(executable_path=chromium(), args=["--no-sandbox"] if root else [])
