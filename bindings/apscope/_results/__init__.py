"""The table of a replay: files, sums, summaries, comparisons, how it is shown."""
