"""Warnings that are counted are apscope's."""

import logging

import pytest


@pytest.fixture(autouse=True)
def _logs_of_others_do_not_count(caplog):
    """What another test left behind, a task of a cluster say, may be told of while one of these
    runs."""
    caplog.handler.addFilter(logging.Filter("apscope"))
