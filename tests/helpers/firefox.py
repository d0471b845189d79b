"""Firefox, driven over its own protocol, Marionette: Playwright cannot drive Debian's."""

import json
import shutil
import socket
import subprocess
from itertools import count
from time import sleep

PREFERENCES = """
user_pref("marionette.port", 0);
user_pref("app.normandy.enabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
"""


class Firefox:
    """A headless Firefox with a new profile in a folder."""

    def __init__(self, folder):
        (folder / "user.js").write_text(PREFERENCES)
        command = shutil.which("firefox-esr") or shutil.which("firefox")
        quiet = subprocess.DEVNULL
        options = "--headless", "--marionette", "--profile", folder
        self.process = subprocess.Popen([command, *options], stdout=quiet, stderr=quiet)
        port = folder / "MarionetteActivePort"
        for _ in range(600):
            if port.exists() and port.read_text():
                break
            sleep(0.1)
        self.stream = socket.create_connection(("127.0.0.1", int(port.read_text()))).makefile("rwb")
        self.numbers = count()
        self.receive()  # its greeting
        self.ask("WebDriver:NewSession")
        self.ask("WebDriver:SetTimeouts", script=120_000)

    def ask(self, command, **given):
        """Send a command, and return its value."""
        message = json.dumps([0, next(self.numbers), command, given]).encode()
        self.stream.write(b"%d:%s" % (len(message), message))
        self.stream.flush()
        _, _, error, value = self.receive()
        if error:
            raise AssertionError(error["message"])
        return value

    def receive(self):
        length = b""
        while (digit := self.stream.read(1)) != b":":
            length += digit
        return json.loads(self.stream.read(int(length)))

    def open(self, url):
        self.ask("WebDriver:Navigate", url=url)

    def run(self, script, given=()):
        """Run the body of an asynchronous function of ``given`` in the page; return its value."""
        body = f"return (async (given) => {{ {script} }})(arguments[0])"
        found = self.ask("WebDriver:ExecuteScript", script=body, args=[given], sandbox=None)
        return found["value"]

    def close(self):
        self.ask("Marionette:Quit", flags=["eForceQuit"])
        self.process.wait(20)
