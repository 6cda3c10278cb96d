"""Two and eight processes that write one place: one writes everything, the others print one
sentence."""

import pytest

from tests.faults.library import ALL
from tests.faults.races import MOST, RACES, run


@pytest.mark.parametrize("writers", [2, MOST])
@pytest.mark.parametrize("name", RACES)
def test_one_of_the_writers_is_there_whole(place, name, writers):
    if name == "report" and writers > 2 and not ALL:
        pytest.skip("a report takes long; APSCOPE_FAULTS=all runs it")
    rounds = 100 if ALL else 1 if name == "report" else 4
    outcome = run(place.server, RACES[name], place.inputs, place.folder, writers, rounds)
    assert not outcome.failures, str(outcome)
