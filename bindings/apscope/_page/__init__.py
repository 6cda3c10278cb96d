"""What the pages share: numbers as texts, and templates."""
