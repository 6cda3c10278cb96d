"""Install PyTorch where it comes cheaply: as a CPU build, without gigabytes of CUDA packages.

apscope does not need it; the recorder's tests do, and are skipped without it. pip is asked what it
would install, and only an answer without CUDA packages, of at most 500 MB, is followed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request

REQUIREMENT = "torch==2.13.0"
MAX_BYTES = 500e6
PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]


def reason_against() -> str | None:
    """Why not to install it, or None."""
    asked = subprocess.run(
        [*PIP, "--dry-run", "--report", "-", REQUIREMENT], capture_output=True, text=True
    )
    if asked.returncode != 0:
        return "pip finds no " + REQUIREMENT + " for this Python and machine"
    plan = json.loads(asked.stdout)["install"]
    cuda = [
        p["metadata"]["name"]
        for p in plan
        if p["metadata"]["name"].startswith(("nvidia-", "cuda-", "triton"))
    ]
    if cuda:
        return f"this index's build brings {len(cuda)} CUDA packages ({cuda[0]}, ...)"
    size = 0
    for package in plan:
        request = urllib.request.Request(package["download_info"]["url"], method="HEAD")
        with urllib.request.urlopen(request, timeout=30) as answer:
            size += int(answer.headers.get("Content-Length", 0))
    return f"its wheels have {size / 1e6:.0f} MB" if size > MAX_BYTES else None


def main() -> int:
    if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0:
        return 0
    try:
        reason = reason_against()
    except (OSError, KeyError, ValueError) as error:
        reason = f"its size cannot be learned ({error})"
    if reason is None and subprocess.run([*PIP, REQUIREMENT]).returncode != 0:
        reason = "pip failed"
    print(
        f"PyTorch is left out, and the tests that need it are skipped: {reason}."
        if reason
        else f"Installed {REQUIREMENT}."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
