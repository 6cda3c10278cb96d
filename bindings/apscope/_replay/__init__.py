"""Replays of traces through schemes, here or on a Dask cluster."""
