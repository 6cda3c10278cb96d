"""Summaries, comparisons and pools of a RESULTS table by plain loops over its rows: sections 14 and
16 of docs/definitions.md, walked literally. `held`: a cell that is not empty."""

import math

import numpy as np
import pandas as pd
import pytest

from apscope._core import student_t

#: Section 14: a reduction that a scheme has of its own.
OWN_REDUCTIONS = (
    "gather", "vote", "code_sum", "own:two_phase", "linear", "streams", "own:ring", "own:butterfly",
)  # fmt: skip
#: The parts of a squared error: section 3.
PARTS = tuple(
    f"split_{part}"
    for part in ("underflow", "rounding", "saturation", "accumulation", "interaction")
)
#: Columns that a pool adds up over the rows that were not skipped.
ADDED = (
    "counted", "nonzero", "underflow", "subnormal", "saturated", "overflow", "nan",
    "infinite", "sum_error", "sum_product", "block_count", "block_saturated",
)  # fmt: skip


def held(value):
    return not pd.isna(value)


def rows_of(frame, trace, scheme, topology):
    """What a topology of a scheme covers: its rows, and those of tensors that have it not, but a
    reduction of their own."""
    mine = frame[(frame.trace == trace) & (frame.scheme == scheme)].to_dict("records")
    if not any(r["stage"] == "reduced" for r in mine):
        return mine
    reduced = [r for r in mine if r["stage"] == "reduced"]
    names = topology.split("+")
    crossing = [name for name in names if name not in OWN_REDUCTIONS]
    if topology == "exact" or not crossing:
        return [r for r in reduced if r["topology"] in names]
    having = {r["tensor"] for r in reduced if r["topology"] in crossing}
    return [
        r
        for r in reduced
        if r["topology"] in crossing
        or (r["tensor"] not in having and r["topology"] in OWN_REDUCTIONS)
    ]


def sent_for(rows, topology):
    """The wire's rows of these for a topology: those with its name, else a tensor's without one."""
    wire = [r for r in rows if r["stage"] == "wire"]
    named = {(r["scheme"], r["tensor"]) for r in wire if r["topology"] == topology}
    return [
        r
        for r in wire
        if r["topology"] == topology
        or (r["topology"] == "" and (r["scheme"], r["tensor"]) not in named)
    ]


def loss(rows):
    """The NMSE of these rows together; None where there is nothing to lose."""
    error = math.fsum(
        r["sum_squared_reference"] if r["skipped"] else r["sum_squared_error"] for r in rows
    )
    reference = math.fsum(r["sum_squared_reference"] for r in rows)
    over = overflowed(rows)
    if reference == 0:
        return 1.0 if over else None
    return max(1.0, error / reference) if over else error / reference


def overflowed(rows):
    return any(held(r["overflow"]) and r["overflow"] > 0 for r in rows)


def over_noise(rows):
    """The geometric mean over the blocks of the error over the noise, and the mean over the steps
    of their sums' quotient."""
    if any(math.isnan(r["sum_noise"]) for r in rows):
        return math.nan, math.nan
    blocks = sum(r["noise_blocks"] for r in rows)
    logs = math.fsum(r["sum_log2_error_over_noise"] for r in rows)
    typical = 2.0 ** (logs / blocks) if blocks else math.nan
    pooled = []
    for step in sorted({r["step"] for r in rows}):
        part = [r for r in rows if r["step"] == step]
        if not math.fsum(r["sum_noise"] for r in part):
            continue
        error = math.fsum(
            r["sum_squared_reference"] if r["skipped"] else r["sum_squared_error"] for r in part
        )
        pooled.append(
            math.inf if overflowed(part) else error / math.fsum(r["sum_noise"] for r in part)
        )
    return typical, mean(pooled)


def cosine(one):
    """The cosine of one row; None where there is nothing to lose."""
    if loss([one]) is None:
        return None
    if math.isnan(loss([one])):
        return math.nan
    over = held(one["overflow"]) and one["overflow"] > 0
    return one["cosine"] if held(one["cosine"]) and not one["skipped"] and not over else 0.0


def gain(rows):
    """What arrives of the gradient: its share, the interval of that over the steps, and the error
    that is orthogonal to it in units of the noise."""
    products, steps, orthogonal = [], {}, []
    for r in rows:
        lost = r["skipped"] or overflowed([r])
        product, square = 0.0 if lost else r["sum_product"], r["sum_squared_reference"]
        products.append((product, square))
        steps.setdefault(r["step"], []).append((r, product, square))
        error = square if r["skipped"] else r["sum_squared_error"]
        along = (product - square) ** 2 / square if square else 0.0
        orthogonal.append(math.nan if math.isnan(error - along) else max(error - along, 0.0))
    share = ratio_of(*(math.fsum(column) for column in zip(*products)))
    noise = math.fsum(r["sum_noise"] for r in rows)
    out = {
        "gain": share, "gain_low": math.nan, "gain_high": math.nan,
        "orthogonal_error_over_noise": math.inf if overflowed(rows)
        else ratio_of(math.fsum(orthogonal), noise),
    }  # fmt: skip
    known = [part for part in steps.values() if loss([r for r, *_ in part]) is not None]
    if overflowed(rows):  # the sums omit what is lost
        return out | {"gain": math.nan}
    if len(known) < 4 or math.isnan(share):
        return out
    sums = [tuple(math.fsum(one[i] for one in part) for i in (1, 2)) for part in known]
    left = [product - share * square for product, square in sums]
    spread = math.sqrt(math.fsum(x * x for x in left) / (len(left) - 1) * len(left))
    half = student_t(len(left) - 1) * spread / math.fsum(square for _, square in sums)
    return out | {"gain_low": share - half, "gain_high": share + half}


def lost_gain(rows):
    """What the gain of one layer lacks; None where there is nothing to lose."""
    if loss(rows) is None:
        return None
    return 1.0 if overflowed(rows) else abs(1 - gain(rows)["gain"])


def is_lost(rows):
    """Whether less than half of one layer arrives; not of a layer with nothing to lose."""
    return loss(rows) is not None and (overflowed(rows) or gain(rows)["gain"] < 0.5)


def mean(values):
    values = [v for v in values if v is not None]
    return math.fsum(values) / len(values) if values else math.nan


def ratio_of(numerator, denominator):
    return numerator / denominator if denominator else math.nan


def underflow(rows):
    sent = [r for r in rows if not r["skipped"] and held(r["underflow"])]
    return ratio_of(sum(r["underflow"] for r in sent), sum(r["nonzero"] for r in sent))


def same(found, wanted, rel=1e-12):
    if wanted is None or (isinstance(wanted, float) and math.isnan(wanted)):
        return pd.isna(found)
    return found == (wanted if isinstance(wanted, str) else pytest.approx(wanted, rel=rel))


def odd(r):
    """Whether not all gradients of the row are finite."""
    if r["skipped"]:
        return r["count"] > r["counted"]
    return any(held(r[name]) and r[name] > 0 for name in ("nan", "infinite"))


def zero_layers(frame, trace):
    """The layers whose gradients are numerically zero: section 14."""
    sums, whole = {}, set()
    for r in frame[(frame.trace == trace) & (frame.stage == "reduced")].to_dict("records"):
        if not overflowed([r]):
            whole.add((r["tensor"], r["step"]))
        most = sums.setdefault(r["tensor"], {}).setdefault(r["step"], [0.0, 0.0, 0.0])
        for i, name in enumerate(("sum_squared_reference", "sum_noise", "count")):
            if held(r[name]):
                most[i] = max(most[i], r[name])
    for layer, steps in sums.items():
        for step in steps:
            if (layer, step) not in whole:
                steps[step][0] = math.inf
    trace_at = {}
    for steps in sums.values():
        for step, (_, noise, count) in steps.items():
            of_step = trace_at.setdefault(step, [0.0, 0.0])
            of_step[0] += noise
            of_step[1] += count
    zero = set()
    for layer, steps in sums.items():
        r, n = (math.fsum(step[i] for step in steps.values()) for i in (0, 1))
        quiet = all(
            noise / count <= 2.0**-32 * trace_at[step][0] / trace_at[step][1]
            for step, (_, noise, count) in steps.items()
            if noise > 0
        )
        if n > 0 and r <= 4 * n and quiet:
            zero.add(layer)
    return zero


def summed_up(frame, trace, scheme, topology):
    """One row of a summary, of the rows of a table."""
    rows = rows_of(frame, trace, scheme, topology)
    judged = [r for r in rows if r["tensor"] not in zero_layers(frame, trace)]
    of_trace = frame[frame.trace == trace].to_dict("records")
    wire = sent_for([r for r in of_trace if r["scheme"] == scheme], topology)
    by_step = [[r for r in rows if r["step"] == step] for step in sorted({r["step"] for r in rows})]
    cells = [
        (math.inf if overflowed([r]) else loss([r]), r["tensor"], r["step"])
        for r in judged
        if loss([r]) is not None
    ]
    unknown = any(math.isnan(value) for value, *_ in cells)
    worst = (math.nan, None, None) if unknown or not cells else max(cells, key=lambda cell: cell[0])
    squares = math.fsum(r["sum_squared_reference"] for r in rows)
    signed = math.fsum(
        -r["sum_absolute_reference"] if r["skipped"] else r["sum_signed_error"] for r in rows
    )
    errors = math.fsum(
        r["sum_squared_reference"] if r["skipped"] else r["sum_squared_error"] for r in rows
    )
    nmse = math.inf if overflowed(rows) else ratio_of(errors, squares)
    spread = math.fsum(
        r["expected_variance"] * r["counted"]
        for r in rows
        if not r["skipped"]
        and not (held(r["counted"]) and r["counted"] == 0)
        and held(r["counted"])
    )
    return {
        "error_over_noise": over_noise(rows)[0],
        "pooled_error_over_noise": over_noise(rows)[1],
        "step_nmse": mean(loss(part) for part in by_step),
        "layer_cosine": mean(cosine(r) for r in judged),
        **gain(rows),
        "lost_gain": mean(
            lost_gain([r for r in judged if r["tensor"] == layer])
            for layer in {r["tensor"] for r in judged}
        ),
        "lost_layers": sum(
            is_lost([r for r in judged if r["tensor"] == layer])
            for layer in {r["tensor"] for r in judged}
        ),
        "worst_nmse": worst[0],
        "worst_layer": worst[1],
        "worst_step": worst[2],
        "nmse": nmse,
        "relative_bias": ratio_of(signed, math.fsum(r["sum_absolute_reference"] for r in rows)),
        "expected_variance": math.nan if math.isnan(squares) else ratio_of(spread, squares),
        "underflow_wire": underflow(wire),
        "underflow_reduced": underflow(rows) if topology else math.nan,
        "volume": math.fsum(r["volume"] * r["count"] for r in rows) / sum(r["count"] for r in rows),
        "skipped": sum(any(r["skipped"] for r in part) for part in by_step),
        "nonfinite": len({r["step"] for r in of_trace if odd(r)}),
        "overflowed": sum(overflowed(part) for part in by_step),
        "gaps": sum(any("memory of an earlier step" in r["note"] for r in p) for p in by_step),
    }


def ratio(one, other):
    return 1.0 if one == other else one / other if other else math.inf


def compared(frame, trace, a, b, topology, layer):
    """One row of a comparison, in loops; `layer` None is all of them; `topology` may be a pair."""
    topologies = topology if isinstance(topology, tuple) else (topology, topology)

    def messages(scheme, topology):
        """Rows at the wire for this topology, or for the first."""
        mine = frame[(frame.trace == trace) & (frame.scheme == scheme)].to_dict("records")
        if topology == "wire":
            reduced = [r["topology"] for r in mine if r["stage"] == "reduced"]
            topology = next((t for t in reduced if t not in ("exact", *OWN_REDUCTIONS)), "")
        return sent_for(mine, topology)

    def stage(scheme, topology):
        if topology == "wire":
            return messages(scheme, topology)
        return rows_of(frame, trace, scheme, topology)

    both = [
        {(r["tensor"], r["step"]): r for r in stage(s, t) if layer in (None, r["tensor"])}
        for s, t in zip((a, b), topologies)
    ]
    known = [
        cell for cell in both[0] if not any(math.isnan(loss([rows[cell]]) or 0) for rows in both)
    ]
    steps = [
        [[rows[cell] for cell in known if cell[1] == step] for rows in both]
        for step in sorted({step for _, step in known})
    ]
    pairs = [(loss(one), loss(other)) for one, other in steps]
    pairs = [p for p in pairs if None not in p]
    cells = [tuple(loss([rows[cell]]) for rows in both) for cell in known]
    ratios = [ratio(*p) for p in pairs]
    logs = [math.log(ratio(*c)) for c in cells if None not in c]
    out = {
        "steps": len(pairs), "wins": sum(x < y for x, y in pairs),
        "losses": sum(x > y for x, y in pairs), "ties": sum(x == y for x, y in pairs),
        "median_ratio": float(np.median(ratios)) if ratios else math.nan,
        "worst_ratio": max(ratios, default=math.nan),
        "geometric_ratio": math.exp(math.fsum(logs) / len(logs)) if logs else math.nan,
    }  # fmt: skip
    for name, scheme, rows, at in (("a", a, both[0], 0), ("b", b, both[1], 1)):
        topology = topologies[at]
        others = topology != "exact" and any(
            r["topology"] == topology for r in messages(scheme, topology)
        )
        wire = {(r["tensor"], r["step"]): r for r in messages(scheme, topology)}
        exact = {(r["tensor"], r["step"]): r for r in stage(scheme, "exact")}
        mine = [rows[cell] for cell in known]
        sent = [cell for cell in known if not rows[cell]["skipped"]]
        error = math.fsum(rows[cell]["sum_squared_error"] for cell in sent)
        error = math.nan if overflowed(mine) else error  # what is left of it has no shares
        added = (
            error - math.fsum(exact[cell]["sum_squared_error"] for cell in sent)
            if topology != "wire" and not others  # else exact adds other messages
            else math.nan
        )
        out |= {
            f"step_nmse_{name}": mean(p[at] for p in pairs),
            f"overflowed_{name}": sum(overflowed(pair[at]) for pair in steps),
            f"nmse_{name}": math.inf
            if overflowed(mine)
            else ratio_of(
                math.fsum(
                    r["sum_squared_reference"] if r["skipped"] else r["sum_squared_error"]
                    for r in mine
                ),
                math.fsum(r["sum_squared_reference"] for r in mine),
            ),
            f"error_over_noise_{name}": over_noise(mine)[0],
            f"cosine_{name}": mean(cosine(r) for r in mine),
            f"underflow_wire_{name}": underflow(wire[cell] for cell in known),
            f"underflow_reduced_{name}": underflow(mine) if topology != "wire" else math.nan,
            f"accumulation_{name}": ratio_of(added, error),
        }
        for part in PARTS:
            out[f"{part.replace('split', 'share')}_{name}"] = ratio_of(
                math.fsum(rows[cell][part] for cell in sent), error
            )
    return out


def pooled(rows):
    """One row of a pool: these rows together."""
    sent = [r for r in rows if not r["skipped"]]

    def added(column, rows):
        values = [r[column] for r in rows if held(r[column])]
        return math.fsum(values) if values else math.nan

    def lost(column, instead, sign=1):
        values = [sign * r[instead] if r["skipped"] else r[column] for r in rows]
        values = [v for v in values if held(v)]
        return math.fsum(values) if values else math.nan

    elements = [r["count"] / r["workers"] if r["stage"] == "wire" else r["count"] for r in rows]
    out = {column: added(column, sent) for column in ADDED}
    out |= {part: math.fsum(r[part] if held(r[part]) else math.nan for r in sent) for part in PARTS}
    out |= {
        "steps": len({r["step"] for r in rows}),
        "skipped_steps": len({r["step"] for r in rows if r["skipped"]}),
        "bits_per_value": sum(r["wire_bits"] + r["side_bits"] for r in rows) / sum(elements),
        "volume": math.fsum(r["volume"] * n for r, n in zip(rows, elements)) / sum(elements),
        "sum_signed_error": lost("sum_signed_error", "sum_absolute_reference", -1),
        "sum_absolute_reference": added("sum_absolute_reference", rows),
        "sum_squared_error": lost("sum_squared_error", "sum_squared_reference"),
        "sum_squared_reference": added("sum_squared_reference", rows),
        "sum_noise": added("sum_noise", rows),
        "error_over_noise": over_noise(rows)[0],
        "gain": gain(rows)["gain"],
        "underflow_rate": underflow(rows),
    }
    counted, over = out["counted"], overflowed(sent)
    out["bias"] = ratio_of(out["sum_error"], counted)
    out["relative_bias"] = ratio_of(out["sum_signed_error"], out["sum_absolute_reference"])
    out["mse"] = math.inf if over else ratio_of(added("sum_squared_error", sent), counted)
    out["variance"] = max(out["mse"] - out["bias"] ** 2, 0.0)
    out["nmse"] = (
        math.inf if over else ratio_of(out["sum_squared_error"], out["sum_squared_reference"])
    )
    out["sqnr_db"] = -10 * math.log10(out["nmse"]) if out["nmse"] else math.inf
    return out
