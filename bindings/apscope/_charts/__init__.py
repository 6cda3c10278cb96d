"""Charts as data: `svg` draws them for the report's page, matplotlib for notebooks."""
