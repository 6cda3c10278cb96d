"""Named formats, and identification of formats and casts."""
