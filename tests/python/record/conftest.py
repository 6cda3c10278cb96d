"""Warnings that are counted are apscope's."""

import logging

import pytest


@pytest.fixture(autouse=True)
def _logs_of_others_do_not_count(caplog):
    """Warnings about objects of an earlier test, such as a cluster's task, may appear during one of
    these."""
    caplog.handler.addFilter(logging.Filter("apscope"))
