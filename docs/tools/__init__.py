"""Commands that write what pages show and measure what they say: python -m docs.tools.NAME."""
