#include "emulation/schemes/float_encoder.h"

#include "emulation/allreduce/reduce.h"
#include "emulation/machine/divide.h"
#include "emulation/schemes/codecs/float_row.h"

namespace apscope::detail {

std::uint64_t payload_bits(const FloatGrid& grid, std::size_t elements) {
    return static_cast<std::uint64_t>(grid.format.storage_bits()) * elements;
}

bool is_stochastic(const FloatGrid& grid) { return is_stochastic(grid.projection.rounding); }

Reduction Reduction::gathered() { return {Collective::all_gather, false, make_format(8, 23), {}}; }

void FloatEncoder::encode(const RowPiece& p, Message& m) const {
    encode_float_row(p, p.theta.common_scale(), grid, m);
    m.side_bits = m.tensor_bits = side_bits;
}

void FloatEncoder::reduce(const SentPieces& s, Row& sum) const {
    if (reduction.exact || s.topology.kind == Topology::Kind::exact)
        return exact_sum(s.messages, sum);
    const std::size_t count = s.messages[0].codes.size();
    thread_local ReduceScratch<double> scratch;
    thread_local std::vector<const double*> rows;
    rows.clear();
    for (const Message& m : s.messages) rows.push_back(m.codes.data());
    sum.resize(count);
    if (count == 0) return;
    const RowCast accumulator = make_accumulator(reduction.accumulate, reduction.projection);
    detail::reduce(s.topology, rows, s.place.first, count, s.place.size, accumulator, s.step.key,
                   sum, scratch);
    if (const Divisors by = grid.division.of(s.step.workers); by.any())
        divide_sum(sum, by.after, s.step.workers, accumulator, s.step.key, s.place.first);
    if (s.theta.scales.empty()) {
        simd::run<DivideRow>(sum.data(), s.theta.common_scale(), count);
    } else {
        for (std::size_t i = 0; i < count; ++i) sum[i] /= s.theta.scale_at(s.place.first + i);
    }
}

GridLimits FloatEncoder::limits(int workers) const {
    return limits_of(grid.format, make_cast<double>(grid.format, grid.projection),
                     grid.division.of(workers).before);
}

}  // namespace apscope::detail
