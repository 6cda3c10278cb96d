"""A fault at any system call that writes leaves the old or the new files, or files that readers
refuse, and a repeat repairs it."""

import re
import shlex
import shutil
import subprocess
from collections import Counter

import pytest

from tests.faults.commands import COMMANDS, restore
from tests.faults.library import ALL, calls, environment, shell_words
from tests.faults.trials import Bench, all_trials, look, thinned
from tests.python.argv import argv

#: What strace and faults.c call by several names.
ONE_NAME = {
    "open": "openat", "creat": "openat", "rename": "renameat2", "renameat": "renameat2",
    "link": "linkat", "symlink": "symlinkat",
    "unlink": "unlinkat", "rmdir": "unlinkat", "mkdir": "mkdirat", "chmod": "fchmodat",
    "chown": "fchownat", "lchown": "fchownat",
    "utime": "utimensat", "utimes": "utimensat", "futimesat": "utimensat",
}  # fmt: skip
TRACED = {
    *ONE_NAME, *ONE_NAME.values(), "write", "pwrite64", "writev", "pwritev", "pwritev2",
    "ftruncate", "truncate", "fallocate", "copy_file_range",
    "sendfile", "splice", "tee", "fsync", "fdatasync", "sync_file_range", "msync", "fchmod",
    "fchown", "mmap", "mknod", "mknodat", "setxattr",
    "lsetxattr", "fsetxattr", "removexattr", "io_uring_enter",
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_a_fault_leaves_the_old_or_the_new_and_a_repeat_mends_it(place, name):
    bench = Bench(place.server, COMMANDS[name], place.inputs, place.folder)
    trials = list(all_trials(bench.calls))
    if not ALL:
        data = sum(trial.call.is_data for trial in trials)
        limit = 4 if bench.command.words[:1] == ("report",) else 8
        trials = thinned(trials, 1 + data // limit, 1 + (len(trials) - data) // limit)
    tally = bench.all(trials)
    assert tally.trials and not tally.failures, "\n".join(tally.failures)


@pytest.mark.parametrize(
    "name", COMMANDS if ALL else [name for name, command in COMMANDS.items() if not command.before]
)
def test_a_child_of_the_server_does_what_a_plain_process_does(place, name, tmp_path):
    """The same bytes, and the same calls, which strace counts: so none that writes escapes
    faults.c. And nothing is left beside them."""
    bench = Bench(place.server, COMMANDS[name], place.inputs, place.folder)
    restore(bench.command, place.inputs, place.folder)
    variables = {
        "LD_PRELOAD": place.library,
        "APSCOPE_FAULTS_UNDER": place.folder,
        "APSCOPE_FAULTS_LOG": tmp_path / "log",
    }
    strace = argv(
        "strace -f -y -s 0 -o {} -e {}",
        tmp_path / "trace",
        f"trace={','.join(f'?{name}' for name in sorted(TRACED))}",
    )
    strace += [word for key, value in variables.items() for word in ("-E", f"{key}={value}")]
    there = shutil.which("strace")
    ran = subprocess.run(
        [*(strace if there else []), *shell_words(bench.job)],
        cwd=place.folder,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert look(place.folder) == bench.clean
    new = [path for path in bench.clean if path not in bench.before]
    assert not [
        path
        for path in new
        if not f"{path}/".startswith(f"{bench.command.target}/") or "/." in path
    ]
    if not there:
        pytest.skip(
            "strace is not installed (Debian: strace): the bytes are the same, the calls were not "
            "counted again"
        )
    seen = Counter(
        filter(
            None,
            (
                writes(line, str(place.folder))
                for line in (tmp_path / "trace").read_text().splitlines()
            ),
        )
    )
    counted = Counter(call.name for call in calls((tmp_path / "log").read_text()))
    assert seen == counted == Counter(call.name for call in bench.calls) and counted


def writes(line: str, under: str) -> str | None:
    """The name of a call of strace's log that writes below the directory."""
    found = re.match(r"\d+ +(\w+)\((.*)", line)
    if not found or found[1] not in TRACED:
        return None
    name, rest = ONE_NAME.get(found[1], found[1]), found[2]
    if (
        name == "openat"
        and found[1] != "creat"
        and not re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_TMPFILE", rest)
    ):
        return None
    if name == "mmap" and not ("MAP_SHARED" in rest and "PROT_WRITE" in rest):
        return None
    arguments = rest.rsplit(") = ", 1)[0]
    # Names of descriptors and of the current directory; a name alone is looked up in it, which is
    # the directory itself.
    opened = [place for place in re.findall(r"(?:\d+|AT_FDCWD)<([^>]*)>", arguments)]
    named = [
        shlex.split(f'"{text}"')[0]
        for text in re.findall(r'"((?:[^"\\]|\\.)*)"(?!\.\.\.)', arguments)
    ]
    absolute = [path for path in named if path.startswith("/")]
    if any((path + "/").startswith(under + "/") for path in absolute):
        return name
    relative = len(absolute) < len(named) or not named
    base = opened or ([under] if named else [])
    return name if relative and any((path + "/").startswith(under + "/") for path in base) else None
