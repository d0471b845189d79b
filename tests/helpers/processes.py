"""The command line as a process of its own, which hears Ctrl-C."""

import os
import signal
import subprocess
import sys

from helpers.texts import ROOT


def listen_to_ctrl_c():
    """Do so in a test run that was started in the background, where it is ignored, too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "transformer_core", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        preexec_fn=None if os.name == "nt" else listen_to_ctrl_c,
        **options,
    )
