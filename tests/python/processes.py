"""Programs of several processes."""

import subprocess
import sys


def run_ranks(program, folder, *words, ranks=2):
    """What each process prints and what it writes to stderr; its words: the folder, its rank, others."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, *map(str, (folder, rank, *words))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        said = [process.communicate(timeout=600) for process in running]
        assert [process.returncode for process in running] == [0] * ranks, said
        return said
    finally:
        for process in running:
            process.kill()
