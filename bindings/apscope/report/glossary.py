"""Words a reader of the report meets. Formulas are those of docs/definitions.md, word for word."""

#: Column -> its definition in docs/definitions.md, section 3.
COLUMNS = {
    "underflow": "finite x != 0 with y == 0",
    "underflow_rate": "underflow / nonzero; empty if nonzero is 0",
    "subnormal": "at the wire, float grids: finite x with 0 < abs(S x) < the format's smallest normal (without subnormals: its smallest value); empty elsewhere",
    "overflow": "x finite, y infinite or NaN. A row with overflow ranks last",
    "bias": "sum_error / P",
    "variance": "mse - bias bias, of the drawn result, not below 0",
    "nmse": "sum_squared_error / sum_squared_reference",
    "sqnr_db": "10 log10(sum_squared_reference / sum_squared_error), section 4; `inf` for no error, empty for a reference of zeros",
    "wire_bits": "one worker's packed payload: n times the bits of a code; at `reduced` the same",
    "side_bits": "one worker's side information (scales, norms)",
    "scale_exponent": "s where S = 2^s is a power of two and the same for the whole tensor; empty otherwise",
    "skipped": "the scheme dropped this step; filled are `count`, `counted` (of finite x), `nonzero`, `sum_squared_reference`, `sum_absolute_reference`, `format`, bits, volumes and `scale_exponent`, no column of an error",
}

#: Other words, in the report's own.
WORDS = {
    "wire": "each worker's gradient x against what it sent, y; all workers pooled",
    "reduced": "the all-reduce's result y against the fp64 sum (or mean) x of the recorded gradients",
    "exact": "the sent values added without rounding: what encoding alone costs",
    "accumulation error": "a topology's reduced row minus the exact one: what rounding the partial sums adds",
    "sequential, ring, tree, hierarchical:G": "orders in which the workers' values are added, each addition rounded to the format",
    "gather": "every worker receives all codes, decodes them and adds in fp32",
    "vote, code_sum, two_phase, linear": "reductions of a scheme's own: the sign most workers sent; integer codes added; the sum encoded a "
    "second time; factors added",
    "bits a value": "(wire_bits + side_bits) of one worker over the number of elements",
    "total bits": "wire_bits + side_bits of one worker, all layers, a step",
    "time": "modelled, not measured: latencies, bytes over bandwidth, passes over memory; docs/definitions.md, section 12",
}
