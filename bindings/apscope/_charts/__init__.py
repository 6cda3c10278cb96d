"""Charts, described once as data; `svg` draws them into the report's page, `figure` with matplotlib into notebooks."""
