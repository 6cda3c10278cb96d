#include "emulation/reduce.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/float_environment.h"
#include "emulation/parallel.h"
#include "emulation/reduce_kernels.h"

namespace apscope {

namespace {

// Elements reduced at a time: small enough that the workers' rows stay in cache.
constexpr std::size_t tile = 256;

// One rounded addition of rows, with the moments of its draws.
class RowAdder {
public:
    RowAdder(const Accumulator& accumulator, PhiloxKey key, std::size_t first, std::size_t count, HopMoments* moments,
             std::size_t moments_offset)
        : accumulator_(accumulator), key_(key), first_(first), count_(count), moments_(moments), offset_(moments_offset) {}

    // target = round(target + sign * source), drawing at `hop`.
    void add(double* target, const double* source, double sign, std::uint32_t hop) {
        const RandomStream stream{key_, 0, stage_and_hop(Stage::reduce, hop), accumulator_.cast.random_bits};
        if (moments_ != nullptr && is_stochastic(accumulator_.rounding)) note_moments(target, source, sign);
        dispatch(accumulator_.rounding, [&]<RoundingMode M>() {
            const std::uint64_t first = first_;
            is_plain(accumulator_.cast) ? simd::run<AddRow<M, true>>(target, source, sign, count_, &accumulator_.cast, &stream, first)
                                        : simd::run<AddRow<M, false>>(target, source, sign, count_, &accumulator_.cast, &stream, first);
        });
    }

private:
    void note_moments(const double* target, const double* source, double sign) {
        for (std::size_t i = 0; i < count_; ++i) {
            // To odd keeps every bit that the random bits can see, and the sticky one.
            const RoundingMoments m =
                stochastic_moments(add_to_odd(target[i], sign * source[i]), accumulator_.cast, accumulator_.rounding, accumulator_.saturates);
            moments_->bias[offset_ + i] += m.bias;
            moments_->variance[offset_ + i] += m.variance;
            moments_->defined = moments_->defined && m.defined;
        }
    }

    const Accumulator& accumulator_;
    PhiloxKey key_;
    std::size_t first_, count_;
    HopMoments* moments_;
    std::size_t offset_;
};

// Kahan's sum, every operation rounded: y = c - e; t = s + y; e = (t - s) - y; s = t.
void kahan_hop(RowAdder& adder, double* sum, double* compensation, const double* addend, double* y, double* t,
               std::size_t count, std::uint32_t hop) {
    std::copy_n(addend, count, y);
    adder.add(y, compensation, -1.0, hop);
    std::copy_n(sum, count, t);
    adder.add(t, y, 1.0, hop + 1);
    std::copy_n(t, count, compensation);
    adder.add(compensation, sum, -1.0, hop + 2);
    adder.add(compensation, y, -1.0, hop + 3);
    std::copy_n(t, count, sum);
}

// One tile of one chunk: the rows are copied to scratch, the hops run there.
void reduce_tile(const Topology& topology, const ReductionProgram& program, std::span<const double* const> rows,
                 std::size_t offset, std::size_t first, std::size_t count, const Accumulator& accumulator, PhiloxKey key,
                 double* out, std::vector<double>& scratch, HopMoments* moments) {
    const std::size_t workers = rows.size();
    if (topology.kind == Topology::Kind::exact) {
        std::copy_n(rows[0] + offset, count, out);
        for (std::size_t w = 1; w < workers; ++w) {
            for (std::size_t i = 0; i < count; ++i) out[i] += rows[w][offset + i];
        }
        return;
    }
    const std::size_t extra = topology.kahan ? workers + 2 : 0;  // compensations, y and t
    scratch.resize((workers + extra) * tile);
    const auto row = [&](std::size_t r) { return scratch.data() + r * tile; };
    for (std::size_t w = 0; w < workers; ++w) std::copy_n(rows[w] + offset, count, row(w));

    RowAdder adder(accumulator, key, first, count, moments, offset);
    std::uint32_t hop_number = 0;
    for (const Hop& hop : program.hops) {
        const std::size_t target = static_cast<std::size_t>(hop.target), source = static_cast<std::size_t>(hop.source);
        if (topology.kahan) {
            if (hop.starts_accumulator) std::fill_n(row(workers + target), count, 0.0);
            kahan_hop(adder, row(target), row(workers + target), row(source), row(2 * workers), row(2 * workers + 1), count, hop_number);
        } else {
            adder.add(row(target), row(source), 1.0, hop_number);
        }
        hop_number += static_cast<std::uint32_t>(program.additions_per_hop);
    }
    std::copy_n(row(static_cast<std::size_t>(program.result)), count, out);
}

}  // namespace

Accumulator make_accumulator(const FloatFormat& format, const Projection& projection) {
    require_counted(projection.rounding, "sums");
    return {make_cast<double>(format, projection), projection.rounding, clamps(projection.overflow)};
}

void encode_row(std::span<const float> in, double* out, double scale, const Cast<double>& cast, RoundingMode rounding,
                PhiloxKey key, std::uint32_t worker, std::uint64_t first) {
    const RandomStream stream{key, worker, stage_and_hop(Stage::wire, 0), cast.random_bits};
    dispatch(rounding, [&]<RoundingMode M>() {
        is_plain(cast) ? simd::run<EncodeRow<M, true>>(in.data(), out, in.size(), scale, &cast, &stream, first)
                       : simd::run<EncodeRow<M, false>>(in.data(), out, in.size(), scale, &cast, &stream, first);
    });
}

void reduce(const Topology& topology, std::span<const double* const> rows, std::size_t first, std::size_t count, std::size_t n,
            const Accumulator& accumulator, PhiloxKey key, std::span<double> out, std::vector<double>& scratch,
            HopMoments* moments) {
    const int workers = static_cast<int>(rows.size());
    for (int chunk = 0; chunk < chunk_count(topology, workers); ++chunk) {
        const std::size_t begin = std::max(chunk_begin(topology, workers, chunk, n), first);
        const std::size_t end = std::min(chunk_begin(topology, workers, chunk + 1, n), first + count);
        if (begin >= end) continue;
        const ReductionProgram program = reduction_program(topology, workers, chunk);
        for (std::size_t at = begin; at < end; at += tile) {
            const std::size_t size = std::min(tile, end - at);
            reduce_tile(topology, program, rows, at - first, at, size, accumulator, key, out.data() + (at - first), scratch, moments);
        }
    }
}

void all_reduce(std::span<const float> in, std::size_t workers, std::span<double> out, const FloatFormat& format,
                const AllReduceOptions& options) {
    if (workers == 0) throw std::invalid_argument("an all-reduce needs at least one worker; the first axis of x is empty");
    const std::size_t n = out.size();
    if (in.size() != workers * n) throw std::invalid_argument("the workers' rows and the result differ in length");
    Projection hop = options.projection;
    if (options.hop_rounding) hop.rounding = *options.hop_rounding;
    const FloatFormat& accumulator_format = options.accumulate ? *options.accumulate : format;
    require_counted(options.projection.rounding, "all-reduces");
    validate(options.projection, format);
    validate(hop, accumulator_format);
    const Accumulator accumulator = make_accumulator(accumulator_format, hop);
    const Cast<double> cast = make_cast<double>(format, options.projection);
    const PhiloxKey key = seed_key(options.seed);

    constexpr std::size_t block = 4096;
    parallel_for((n + block - 1) / block, options.threads, [&](std::size_t b) {
        const std::size_t first = b * block, count = std::min(block, n - first);
        std::vector<double> values(workers * count), scratch;
        std::vector<const double*> rows(workers);
        for (std::size_t w = 0; w < workers; ++w) {
            double* row = values.data() + w * count;
            const float* source = in.data() + w * n + first;
            rows[w] = row;
            if (!options.input_cast) {
                std::copy_n(source, count, row);
                continue;
            }
            encode_row({source, count}, row, 1.0, cast, options.projection.rounding, key, static_cast<std::uint32_t>(w), first);
        }
        reduce(options.topology, rows, first, count, n, accumulator, key, out.subspan(first, count), scratch);
    });
}

}  // namespace apscope
