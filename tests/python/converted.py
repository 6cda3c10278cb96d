"""Conversions of dumps of means: the trace that one becomes, and the sentence that refuses one."""

import os
import tempfile
from pathlib import Path

import pytest

from apscope.record import convert


def converted(source, out, **options):
    """The trace."""
    return convert(source, out, **{"reduction": "mean"} | options).trace


def refused(words, source, **options):
    """The sentence, which has these words; nothing is left of the conversion."""
    with tempfile.TemporaryDirectory() as folder:
        with pytest.raises(ValueError, match=words) as error:
            convert(source, Path(folder) / "run", **{"reduction": "mean"} | options)
        assert os.listdir(folder) == []
    assert "\n" not in str(error.value)
    return str(error.value)


def pattern_of(sentence):
    """The pattern that a refusal proposes."""
    return sentence.split("--pattern '")[1].split("'")[0]
