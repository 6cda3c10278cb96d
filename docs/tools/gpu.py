"""The results of .ci/gpu.sh: one JSON, and from it the table of docs/performance.md.

python -m docs.tools.gpu --collect FOLDER   reads what the parts left in FOLDER, writes
                                            FOLDER/gpu.json and prints the table
python -m docs.tools.gpu docs/performance.md gpu.json     writes the table into the page

The first needs no package: it runs where apscope is not installed.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from . import page


def read(path: Path) -> Any:
    """A file of JSON, or None if a part did not write it whole."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def first_line(*command: str) -> str:
    """The last line that a command prints, or nothing."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except OSError:
        return ""
    return run.stdout.strip().splitlines()[-1] if run.returncode == 0 and run.stdout else ""


def collect(folder: Path, gpu: str, driver: str) -> dict[str, Any]:
    """Everything that the parts found."""
    parts = []
    for line in (folder / "parts").read_text().splitlines():
        name, how, seconds, processor, limit = line.split("\t")
        parts.append({
            "name": name, "how": how, "seconds": float(seconds),
            "processor_seconds": float(processor), "limit": int(limit),
        })  # fmt: skip
    names = ("proofs", "kernel_times", "all_inputs")
    programs = {name: read(folder / f"{name}.json") for name in names}
    return {
        "kind": "apscope on a GPU",
        "version": 1,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": first_line("git", "rev-parse", "--short", "HEAD"),
        "gpu": gpu,
        "driver": driver,
        "nvcc": first_line("nvcc", "--version"),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "parts": parts,
        "proofs": {
            name: {key: found[key] for key in ("proofs", "values", "wrong_proofs", "first_wrong")}
            for name in ("proofs", "all_inputs")
            if (found := programs[name])
        },
        "timings": programs["kernel_times"]["timings"] if programs["kernel_times"] else [],
        "arrays": read(folder / "arrays.json"),
        "replay": read(folder / "replay.json"),
        "training": read(folder / "training.json"),
    }


def ratio(of_floor: float) -> str:
    """The time divided by the floor's, as the page's other tables print ratios' inverses."""
    return f"{of_floor:.2f}" if of_floor < 10 else f"{of_floor:.0f}"


def lines_of(result: dict[str, Any]) -> list[str]:
    """The lines between the markers of the page."""
    proofs = [
        f"{found['proofs']:,} proofs ({found['values']:,} values), {found['wrong_proofs']} of them "
        f"wrong{': ' + found['first_wrong'] if found['first_wrong'] else ''}"
        for found in result["proofs"].values()
    ]
    if arrays := result["arrays"]:
        differ = len(arrays["wrong"])
        proofs.append(f"{arrays['calls']:,} calls of the package on tensors, {differ} differ")
    if training := result["training"]:
        differ = len(training["wrong"])
        proofs.append(f"{training['runs']:,} runs of training and its casts, {differ} differ")
    bad = [f"`{part['name']}` {part['how']}" for part in result["parts"] if part["how"] != "passed"]
    commit = f", commit {result['commit']}" if result["commit"] else ""
    lines = [
        f"{result['gpu']}{', driver ' + result['driver'] if result['driver'] else ''}, "
        f"{result['processors']} processors, {result['nvcc'] or 'nvcc unknown'}, "
        f"{result['date']}{commit}. {'; '.join(proofs) or 'No proof ran'}. "
        f"Parts that did not pass: {', '.join(bad) or 'none'}.",
    ]
    if result["timings"]:
        rows = [
            (
                row["job"], f"{row['ms']:.3f}", f"{row['rate']:.4g} {row['unit']}", row["floor"],
                ratio(row["of_floor"]) if row["floor"] else "",
            )
            for row in result["timings"]
        ]  # fmt: skip
        lines += ["", *page.table(("job", "ms", "rate", "time divided by that of", ""), rows)]
    if arrays and arrays["small_calls"]:
        rows = [(one["call"], f"{one['us']:.1f}") for one in arrays["small_calls"]]
        lines += [
            "",
            "A call on 1,000 numbers, one behind another.",
            "",
            *page.table(("call", "microseconds"), rows),
        ]
    if training:
        rows = [
            (row["job"], f"{row['ms']:.2f}", f"{row['plain_ms']:.2f}", ratio(row["of_plain"]))
            for row in training["times"]
        ]
        lines += [
            "",
            "A step of training (four pairs of linear layers of 1024 and 4096, 4,096 rows; exchanges "
            "of 8 workers) beside the same step in fp32, or beside the mean of the gradients.",
            "",
            *page.table(("step", "ms", "without, ms", "ratio"), rows),
        ]
    if replay := result["replay"]:
        equal = "equal" if not replay["differing_columns"] else "different"
        rate = replay["values"] * len(replay["schemes"]) * 1e-6
        device = "GPU" if replay["device"] == "cuda" else "CPU again (dry run)"
        lines += [
            "",
            f"A replay of ResNet-18's size: {replay['values']:,} values of {replay['workers']} "
            f"workers, {replay['steps']} steps, {len(replay['schemes'])} schemes, "
            f"{replay['topologies']} topologies; {equal} rows ({replay['rows']:,}); the median of "
            "three runs.",
            "",
            *page.table(
                ("replay on", "seconds", "10^6 values and schemes a second"),
                [
                    (on, f"{seconds:.2f}", f"{rate / seconds:.0f}")
                    for on, seconds in (
                        (f"CPU, {replay['processors']} processors", replay["cpu_seconds"]),
                        (device, replay["device_seconds"]),
                    )
                ],
            ),
        ]
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path, nargs="?", help="docs/performance.md")
    parser.add_argument("json", type=Path, nargs="?", help="gpu.json")
    parser.add_argument("--collect", type=Path, help="the folder of .ci/gpu.sh")
    parser.add_argument("--gpu", default="", help="its name")
    parser.add_argument("--driver", default="", help="its driver's version")
    args = parser.parse_args(arguments)
    if args.collect:
        result = collect(args.collect, args.gpu, args.driver)
        (args.collect / "gpu.json").write_text(json.dumps(result, indent=1) + "\n")
        print("\n".join(lines_of(result)))
        return
    if not args.json:
        parser.error("give --collect FOLDER, or docs/performance.md and a gpu.json")
    result = read(args.json)
    if not isinstance(result, dict) or result.get("kind") != "apscope on a GPU":
        raise SystemExit(f"{args.json} is not a gpu.json that .ci/gpu.sh wrote")
    if "dry run" in result["gpu"]:
        raise SystemExit(f"{args.json} is from a dry run; the page shows a GPU's figures")
    page.write(args.page, {"gpu": lines_of(result)})


if __name__ == "__main__":
    sys.exit(main())
