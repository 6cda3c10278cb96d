"""Records the trace `characters`: a character-level transformer on the King James Version's
Genesis.

    apt-get install bible-kjv          # the program `bible` and, as its dependency, bible-kjv-text
    python notebooks/record/record_characters.py notebooks/data

On the same versions of PyTorch and NumPy and the same kind of CPU a second run writes the same
bytes.
"""

import language

if __name__ == "__main__":
    folder, text = language.arguments_of(__doc__.splitlines()[0], "where the trace goes")
    language.record(
        folder / "characters", text, sorted(set(text)), "record_characters.py", 20210501,
        "characters",
        steps=(0, 30, 150, 600, 1500, 3000), rich_steps=(0, 3000), context=16, width=32, heads=4,
        rate=3e-3, batch=2,
    )  # fmt: skip
