"""Headless Chromium, driven through its DevTools protocol over two pipes: no port, no package, no
driver."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.python.argv import argv

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


def busy() -> float:
    """How many programs want each processor, at least 1: what waits lengthens what a clock on the
    wall shows."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


#: Whether a report's page is drawn.
READY = "document.documentElement?.classList.contains('ready')"


class Browser:
    """One tab. `messages` holds what the page wrote to the console and its uncaught errors,
    `requests` the addresses it asked for."""

    def __init__(self, width: int = 1400, height: int = 1000) -> None:
        self.profile = tempfile.mkdtemp(prefix="apscope-chromium-")
        to_read, self._send = os.pipe()
        self._receive, to_write = os.pipe()
        # The browser reads commands from descriptor 3 and writes answers to 4.
        command = f'exec "{CHROMIUM}" "$@" 3<&{to_read} 4>&{to_write}'
        flags = argv(
            "--headless --no-sandbox --disable-gpu --disable-background-networking "
            "--no-first-run --remote-debugging-pipe --disable-dev-shm-usage --hide-scrollbars "
            "{} about:blank",
            f"--user-data-dir={self.profile}",
        )
        self.process = subprocess.Popen(
            ["bash", "-c", command, "bash", *flags],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._numbers, self._pending, self._session = itertools.count(1), b"", None
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.events: list[dict[str, Any]] = []
        self._attach("page", ("Page", "Runtime", "Network", "Log"))
        self.resize(width, height)

    def _attach(self, kind: str, domains: tuple[str, ...]) -> None:
        """Speaks to the first target of a kind from now on, once there is one."""
        end = time.monotonic() + 60
        while not (
            found := [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == kind]
        ):
            if time.monotonic() > end:
                raise TimeoutError(f"Chromium has no {kind}")
            time.sleep(0.02)
        self._session = self.call(
            "Target.attachToTarget", targetId=found[0]["targetId"], flatten=True
        )["sessionId"]
        for domain in domains:
            self.call(f"{domain}.enable")

    def call(self, method: str, timeout: float = 60, **parameters: Any) -> dict[str, Any]:
        """A command and its answer."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters} | (
            {"sessionId": self._session} if self._session else {}
        )
        os.write(self._send, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + timeout
        while True:
            answer = self._read(end)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _read(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._pending:
            if not select.select([self._receive], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError("Chromium does not answer")
            part = os.read(self._receive, 1 << 20)
            if not part:
                raise RuntimeError("Chromium ended")
            self._pending += part
        text, self._pending = self._pending.split(b"\0", 1)
        message = json.loads(text)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, values = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.messages.append(
                " ".join(str(a.get("value", a.get("description"))) for a in values["args"])
            )
        elif method == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            self.messages.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded":
            self.messages.append(values["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        if method:
            self.events.append(message)

    def open(
        self, address: str, ready: str = "document.readyState === 'complete'", timeout: float = 60
    ) -> float:
        """Opens an address; seconds until the expression `ready` holds."""
        self.messages.clear()
        self.requests.clear()
        began = time.monotonic()
        self.call("Page.navigate", url=address)
        self.wait(ready, timeout)
        return time.monotonic() - began

    def show(self, text: str, folder: Path) -> float:
        """Opens a report's page; seconds until it is ready."""
        path = folder / "page.html"
        path.write_text(text, encoding="utf-8")
        return self.open(path.as_uri(), READY)

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression, or of its promise, as JSON holds it."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(
                answer["exceptionDetails"].get("exception", {}).get("description", "an exception")
            )
        return answer["result"].get("value")

    def wait(self, expression: str, timeout: float = 30) -> None:
        end = time.monotonic() + timeout
        while not self.run(f"Boolean({expression})"):
            if time.monotonic() > end:
                raise TimeoutError(
                    f"{expression} does not become true; the console says {self.messages}"
                )
            time.sleep(0.02)

    def enter_frame(self) -> None:
        """From now on `run` and `wait` act on the page's sandboxed frame, which is a separate
        process."""
        self._session = None
        self._attach("iframe", ("Runtime", "Network", "Log"))

    def select(self, **state: object) -> None:
        """Draws all of a report's page with these of its choices."""
        self.run(
            f"Object.assign(apscopePage.state, {json.dumps(state)}); apscopePage.update(); "
            "apscopePage.drawAll()"
        )

    def choose(self, selector: str, value: str) -> None:
        """Takes a value of a list, as a reader does."""
        self.run(
            f"(() => {{ const list = document.querySelector({selector!r}); list.value = {value!r}; "
            "list.dispatchEvent(new Event('change')); apscopePage.drawAll(); })()"
        )

    def texts(self, selector: str) -> list[str]:
        """The texts of some elements of the page."""
        return self.run(
            f"[...document.querySelectorAll({selector!r})].map((one) => one.textContent)"
        )

    def versus(self) -> list[list[str]]:
        """The cells of a report's table of two schemes, row by row."""
        return self.run(
            "[...document.querySelectorAll('#versus tbody tr')].map((tr) => [...tr.children].map("
            "(cell) => cell.textContent))"
        )

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, scheme: str) -> None:
        """Light or dark."""
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def click(self, x: float, y: float) -> None:
        """A click of the mouse at a place of the window."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                text="\r" if key == "Enter" and kind == "keyDown" else "",
            )

    def picture(self, whole: bool = False) -> bytes:
        """The window, or the whole page, as PNG."""
        return base64.b64decode(
            self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        )

    def paper(self) -> bytes:
        """The page as PDF."""
        return base64.b64decode(
            self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True, timeout=120)[
                "data"
            ]
        )

    def close(self) -> None:
        try:
            self._session = None
            self.call("Browser.close", timeout=10)
            self.process.wait(20)
        except (RuntimeError, TimeoutError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self._send)
        os.close(self._receive)
        shutil.rmtree(self.profile, ignore_errors=True)
