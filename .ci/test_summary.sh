#!/bin/bash
# The closing lines of `make test`: what each part counted. Arguments: the folder of the logs, and
# 0 if every part succeeded.
set -uo pipefail
logs=$1 status=$2
line() {  # title, log, command that finds the counts in it
    local counts
    counts=$("${@:3}" "$logs/$2" 2>/dev/null | tail -n 1 | tr -d =) && [[ $counts ]] \
        || { counts="did not finish"; status=1; }
    printf '%-18s %s\n' "$1" "$counts"
}
echo
line "C++ tests:" cpp grep 'tests passed'
line "Python, notebooks:" python tail -n 1
if [[ $status == 0 ]]; then
    echo "All tests passed."
else
    echo "Tests failed; the logs are in $logs."
fi
exit "$status"
