#include "emulation/allreduce/reduce.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/exact_accumulator.h"
#include "core/float_environment.h"
#include "core/sizes.h"
#include "emulation/allreduce/additions.h"
#include "emulation/allreduce/reduce_walk.h"
#include "emulation/cast/row_moments.h"
#include "emulation/machine/parallel.h"

namespace apscope::detail {

namespace {

// Adds two rows, rounding every sum once, and accumulates the moments of stochastic sums. `wide`
// rounds the hops with Hop::wide, which are never stochastic; it is null if no hop has Hop::wide.
class RowAdder {
public:
    RowAdder(const RowCast& accumulator, const RowCast* wide, PhiloxKey key, std::size_t first,
             std::size_t count, HopMoments* moments, std::size_t moments_offset)
        : accumulator_(accumulator), wide_(wide), key_(key), first_(first), count_(count),
          moments_(moments), offset_(moments_offset) {}

    // target = round(a + sign * b), with the random words of hop `hop`; `target` may be `a`.
    void add(double* target, const double* a, const double* b, double sign, std::uint32_t hop,
             bool wide) {
        if (wide) return wide_->add(a, b, sign, target, count_, {}, first_);
        if (notes()) {
            // A sum rounded to odd has every bit on which a stochastic rounding depends, and a
            // sticky bit.
            odd_.resize(count_);
            sums_to_odd(a, b, sign, odd_.data(), count_);
            note_moments(odd_.data());
        }
        accumulator_.add(a, b, sign, target, count_, stream(hop), first_);
    }
    // target = round(a)
    void round(double* target, const double* a, std::uint32_t hop) {
        if (notes()) note_moments(a);
        accumulator_.round(a, 1.0, target, count_, stream(hop), first_);
    }

private:
    bool notes() const {
        return moments_ != nullptr && is_stochastic(accumulator_.cast().rounding);
    }
    RandomStream stream(std::uint32_t hop) const {
        return {key_, 0, stage_and_hop(Stage::reduce, hop), accumulator_.cast().random_bits};
    }
    void note_moments(const double* exact) {
        const bool defined =
            add_moments(exact, count_, 1.0, accumulator_.cast(), moments_->bias.data() + offset_,
                        moments_->variance.data() + offset_);
        moments_->defined = moments_->defined && defined;
    }

    const RowCast& accumulator_;
    const RowCast* wide_;
    PhiloxKey key_;
    std::size_t first_, count_;
    HopMoments* moments_;
    std::size_t offset_;
    std::vector<double> odd_;
};

// Adds rows in fp32, in the cases of fp32_sums.h.
struct AddFp32 {
    static APSCOPE_INLINE void run(float* target, const float* a, const float* b, float sign,
                                   std::size_t count) {
#pragma GCC ivdep  // rows do not overlap, or are identical
        for (std::size_t i = 0; i < count; ++i) target[i] = a[i] + sign * b[i];
    }
};
// Adds and rounds without storing the sum in between.
template <Step S>
struct AddAndRound {
    static APSCOPE_INLINE void run(float* target, const float* a, const float* b, float sign,
                                   std::size_t count, const StepCast<float>* given) {
        const StepCast<float> step = *given;
#pragma GCC ivdep  // rows do not overlap, or are identical
        for (std::size_t i = 0; i < count; ++i) target[i] = round_step<S>(a[i] + sign * b[i], step);
    }
};
class Fp32Adder {
public:
    Fp32Adder(Fp32Sums& sums, PhiloxKey key, std::size_t first, std::size_t count,
              HopMoments* moments, std::size_t moments_offset)
        : sums_(sums), key_(key), first_(first), count_(count), moments_(moments),
          offset_(moments_offset) {}
    // target = round(a + sign * b), with the random words of hop `hop`; `target` may be `a`.
    void add(float* target, const float* a, const float* b, float sign, std::uint32_t hop,
             bool wide) {
        if (wide) return simd::run<AddFp32>(target, a, b, sign, count_);
        if (sums_.step && sums_.step->step == Step::addition)
            return simd::run<AddAndRound<Step::addition>>(target, a, b, sign, count_, &*sums_.step);
        if (sums_.step && sums_.step->step == Step::bits)
            return simd::run<AddAndRound<Step::bits>>(target, a, b, sign, count_, &*sums_.step);
        simd::run<AddFp32>(target, a, b, sign, count_);
        if (!sums_.in_hardware) round(target, target, hop);
    }
    // target = round(a)
    void round(float* target, const float* a, std::uint32_t hop) {
        if (sums_.in_hardware) {
            std::copy_n(a, target == a ? 0 : count_, target);
            return;
        }
        if (moments_ != nullptr && is_stochastic(sums_.accumulator.rounding)) {
            const bool defined =
                add_moments(a, count_, sums_.scale, sums_.accumulator,
                            moments_->bias.data() + offset_, moments_->variance.data() + offset_);
            moments_->defined = moments_->defined && defined;
        }
        round_row(sums_.job, a, target, count_,
                  {key_, 0, stage_and_hop(Stage::reduce, hop), sums_.random_bits}, first_);
    }

private:
    Fp32Sums& sums_;
    PhiloxKey key_;
    std::size_t first_, count_;
    HopMoments* moments_;
    std::size_t offset_;
};

// Replaces every NaN and zero by the NaN and zero of the rounding rule: the processor's NaNs have a
// sign, and its zeros may have a sign although the format has no -0.
struct Canonicalize {
    static APSCOPE_INLINE void run(float* row, std::size_t count, std::uint32_t zero_sign) {
        for (std::size_t i = 0; i < count; ++i)
            row[i] = canonicalize_nan_and_zero(row[i], zero_sign);
    }
};

// Computes the exact sums of rows and rounds each sum once to the cast's format, ties to even. A
// single row is copied.
void sum_exactly(std::span<const double* const> rows, const Cast<double>& cast,
                 std::span<double> out) {
    if (rows.size() == 1) {
        std::copy_n(rows[0], out.size(), out.data());
        return;
    }
    constexpr auto nearest = RoundingMode::ties_to_even;
    for (std::size_t i = 0; i < out.size(); ++i) {
        Fp64ProductSum sum;
        for (const double* row : rows) sum.add(row[i]);
        const WideNumber total = sum.total();
        out[i] = sum.finite() && total.significand != 0
                     ? wide_to_format<nearest>(total, cast, 0)
                     : round_to_format<nearest, double>(
                           sum.finite() ? sum.zero(false) : sum.special(), cast, 0);
    }
}

}  // namespace

RowCast make_accumulator(const FloatFormat& format, const Projection& projection) {
    require_counted(projection.rounding, "sums");
    return {format, projection};
}

void encode_row(std::span<const float> in, double* out, double scale, const RowCast& cast,
                PhiloxKey key, std::uint32_t worker, std::uint64_t first) {
    const RandomStream wire{key, worker, stage_and_hop(Stage::wire, 0), cast.cast().random_bits};
    cast.round(in.data(), scale, out, in.size(), wire, first);
}

void reduce(const Topology& order, std::span<const double* const> rows, std::size_t first,
            std::size_t count, std::size_t n, const RowCast& accumulator, PhiloxKey key,
            std::span<double> out, ReduceScratch<double>& scratch, HopMoments* moments) {
    Topology topology = order;
    topology.channels.element_bytes = (accumulator.format().storage_bits() + 7) / 8;
    if (topology.kind == Topology::Kind::exact) {
        std::copy_n(rows[0], count, out.data());
        for (std::size_t w = 1; w < rows.size(); ++w) {
            for (std::size_t i = 0; i < count; ++i) out[i] += rows[w][i];
        }
        return;
    }
    const auto walk = [&](const RowCast& narrow, const RowCast* wide) {
        reduce_walk<double>(topology, rows, first, count, n, out.data(), scratch,
                            [&](std::size_t at, std::size_t size) {
                                return RowAdder(narrow, wide, key, at, size, moments, at - first);
                            });
    };
    if (topology.is_plain()) return walk(accumulator, nullptr);
    const auto cast_of = [](const SumRounding& r) { return RowCast(r.format, r.projection); };
    const Additions by = additions_of(topology, accumulator.format(), accumulator.projection());
    if (by.exact)
        return sum_exactly(rows, make_cast<double>(by.narrow.format, by.narrow.projection), out);
    const RowCast narrow = cast_of(by.narrow);
    if (!by.wide) return walk(narrow, nullptr);
    const RowCast wide = cast_of(*by.wide);
    walk(narrow, &wide);
}

void reduce(const Topology& topology, std::span<const float* const> rows, std::size_t first,
            std::size_t count, std::size_t n, Fp32Sums& sums, PhiloxKey key, std::span<float> out,
            ReduceScratch<float>& scratch, HopMoments* moments) {
    reduce_walk<float>(topology, rows, first, count, n, out.data(), scratch,
                       [&](std::size_t at, std::size_t size) {
                           return Fp32Adder(sums, key, at, size, moments, at - first);
                       });
    // With a single worker nothing was added, so the values of this worker are not changed.
    if (rows.size() > 1 && (sums.in_hardware || sums.step || sums.ends_wide))
        simd::run<Canonicalize>(out.data(), count, sums.zero_sign);
}

HopTarget checked_hops(std::size_t workers, const FloatFormat& format,
                       const AllReduceOptions& options) {
    if (workers == 0)
        throw std::invalid_argument(
            "an all-reduce needs at least one worker; the first axis of x is empty");
    if (std::cmp_greater(workers, std::numeric_limits<int>::max()))
        throw std::invalid_argument("an all-reduce of " + std::to_string(workers) +
                                    " workers has too many; give fewer than 2^31");
    if (!options.topology.is_order())
        throw std::invalid_argument("topology '" + options.topology.name() +
                                    "' encodes with a scheme; give exchange() a scheme, as in "
                                    "exchange('none:e4m3', x, topology='two_phase')");
    HopTarget hops{options.accumulate.value_or(format), options.projection};
    if (options.hop_rounding) hops.projection.rounding = *options.hop_rounding;
    require_counted(options.projection.rounding, "all-reduces");
    validate(options.projection, format);
    validate(hops.projection, hops.format);
    return hops;
}

void all_reduce(std::span<const float> in, std::size_t workers, std::span<double> out,
                const FloatFormat& format, const AllReduceOptions& options) {
    checked_hops(workers, format, options);  // refuses too many workers
    const std::size_t n = out.size();
    if (in.size() != checked_size({workers, n}, "the array of all workers"))
        throw std::invalid_argument("the workers' rows and the result differ in length");
    if (n == 0) return;
    std::vector<std::span<const float>> rows(workers);
    for (std::size_t w = 0; w < workers; ++w) rows[w] = in.subspan(w * n, n);
    all_reduce(rows, out, format, options);
}

void all_reduce(std::span<const std::span<const float>> in, std::span<double> out,
                const FloatFormat& format, const AllReduceOptions& options) {
    const std::size_t n = out.size(), workers = in.size();
    const HopTarget hops = checked_hops(workers, format, options);
    for (const std::span<const float> row : in)
        if (row.size() != n)
            throw std::invalid_argument("the workers' rows and the result differ in length");
    const RowCast accumulator = make_accumulator(hops.format, hops.projection),
                  cast(format, options.projection);
    const PhiloxKey key = seed_key(options.seed);

    // Without the input cast, rows may have values that fp32_sums() does not support.
    const std::optional<Fp32Sums> sums =
        options.input_cast && options.topology.kind != Topology::Kind::exact
            ? fp32_sums(options.topology, format, hops.format, hops.projection, 0,
                        static_cast<int>(workers))
            : std::nullopt;
    const auto narrow = [&](std::size_t first, std::size_t count) {
        std::vector<float> values(workers * count), sum(count);
        ReduceScratch<float> scratch;
        std::vector<const float*> rows(workers);
        QuantizeJob<float> sent = make_row_job(format, options.projection);
        for (std::size_t w = 0; w < workers; ++w) {
            float* row = values.data() + w * count;
            rows[w] = row;
            const RandomStream wire{key, static_cast<std::uint32_t>(w),
                                    stage_and_hop(Stage::wire, 0), options.projection.drawn_bits()};
            round_row(sent, in[w].data() + first, row, count, wire, first);
        }
        Fp32Sums local_sums = *sums;
        reduce(options.topology, rows, first, count, n, local_sums, key, sum, scratch);
        std::copy_n(sum.data(), count, out.data() + first);
    };
    const auto wide = [&](std::size_t first, std::size_t count) {
        std::vector<double> values(workers * count);
        ReduceScratch<double> scratch;
        std::vector<const double*> rows(workers);
        for (std::size_t w = 0; w < workers; ++w) {
            double* row = values.data() + w * count;
            const float* source = in[w].data() + first;
            rows[w] = row;
            if (!options.input_cast) {
                std::copy_n(source, count, row);
                continue;
            }
            encode_row({source, count}, row, 1.0, cast, key, static_cast<std::uint32_t>(w), first);
        }
        reduce(options.topology, rows, first, count, n, accumulator, key, out.subspan(first, count),
               scratch);
    };
    constexpr std::size_t block = 4096;
    parallel_pieces((n + block - 1) / block, options.threads, [&](std::size_t b) {
        const std::size_t first = b * block, count = std::min(block, n - first);
        sums ? narrow(first, count) : wide(first, count);
    });
}

}  // namespace apscope::detail
