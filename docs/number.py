"""One number for every kind of error: which statistic of a replay orders schemes as training does.

The candidates were fixed before the tasks of docs/held_out.toml were trained, with their theory. Take
SGD on a quadratic with one step size h and curvature c: the weights average the gradients of about
k = 1 / (h c) steps. Their noise there is that of the batch times 1 + |sum of e|^2 / (sum of N), both
over k steps, e the error and N the noise's variance (`apscope._training.statistics`). So an error that
averages out counts once, one that stays counts k times, one that is fed back less than once
(`persistence_k`). What is lost of the gradient itself, by a gain below 1 or a turned direction, slows
the descent, whatever the noise (`lost_gain`, `cosine_loss`). Several names: their geometric mean.
"""

CANDIDATES: dict[str, tuple[str, ...]] = {
    # those of docs/insight.md
    "typical_32": ("typical_32",),
    "pooled": ("pooled",),
    "step_nmse": ("step_nmse",),
    "cosine_loss": ("cosine_loss",),
    "signed": ("signed",),
    # what persists over k consecutive steps
    "typical_persistence_10": ("typical_persistence_10",),
    "persistence_10": ("persistence_10",),
    "persistence_30": ("persistence_30",),
    "lost_persistence_10": ("lost_persistence_10",),
    # what persists times what is lost
    "signed x cosine": ("signed", "cosine_loss"),
    "signed_10 x cosine": ("signed_10", "cosine_loss"),
    "typical_persistence_10 x cosine": ("typical_persistence_10", "cosine_loss"),
    "typical_persistence_30 x cosine": ("typical_persistence_30", "cosine_loss"),
    "signed x gain": ("signed", "lost_gain"),
    "typical_persistence_10 x gain": ("typical_persistence_10", "lost_gain"),
    "typical_persistence_30 x gain": ("typical_persistence_30", "lost_gain"),
}
