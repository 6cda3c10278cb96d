"""The table of a replay: files, sums, summaries, comparisons, display."""
