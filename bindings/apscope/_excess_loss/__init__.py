"""The excess loss that an error predicts: the laws that were fitted, and what they say."""
