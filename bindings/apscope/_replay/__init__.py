"""Traces through schemes, here or on a Dask cluster."""
