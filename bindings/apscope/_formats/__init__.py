"""Named formats, and which format or cast something is."""
