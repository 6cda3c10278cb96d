#include "emulation/verify/operations.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "emulation/verify/chunks.h"
#include "emulation/verify/operands.h"
#include "emulation/verify/tally.h"

namespace apscope::detail::oracle {
namespace {

// The projection for exact results: the flushing of inputs applies to operands, not to exact
// results.
Projection of_results(Projection projection) {
    projection.underflow =
        projection.flushes_result() ? Underflow::flush_result : Underflow::gradual;
    return projection;
}

struct OperationTally {
    std::uint64_t cases = 0, mismatches = 0,
                  first_place = std::numeric_limits<std::uint64_t>::max();
    OperationMismatch first;

    void merge(const OperationTally& other) {
        cases += other.cases;
        mismatches += other.mismatches;
        if (other.first_place < first_place) {
            first_place = other.first_place;
            first = other.first;
        }
    }
};

template <class Real>
constexpr bool has_arithmetic = requires(std::span<const Real> in, std::span<Real> out) {
    arithmetic(Operation::add, in, in, in, out, FloatFormat{}, Projection{}, std::uint64_t{0}, 1);
};

// Verifies cases on one thread, with its own arrays and oracle.
template <class Real>
class Worker {
public:
    Worker(const FloatFormat& format, Operation operation, const Projection& projection,
           const OperationOptions& options, const Operands<Real>& operands)
        : format_(format), operation_(operation), projection_(projection), options_(options),
          operands_(operands), oracle_(format, operation, projection) {}

    // Verifies cases first .. last - 1 as one array.
    OperationTally operator()(std::uint64_t first, std::uint64_t last, int threads) {
        const std::size_t count = last - first;
        for (std::vector<Real>& row : rows_) row.resize(count);
        out_.resize(count);
        const std::uint64_t seed = options_.seed + first;  // every array has different random words
        const RandomStream words = array_stream(seed, projection_.drawn_bits());
        const auto word = [&](std::size_t i) {
            return is_stochastic(projection_.rounding) ? words.at(i) : 0;
        };
        for (std::size_t i = 0; i < count; ++i) {
            const std::array<Real, 3> x = operands_.at(first + i, word(i));
            for (std::size_t k = 0; k < 3; ++k) rows_[k][i] = x[k];
        }
        const std::span<const Real> rows[] = {rows_[0], rows_[1], rows_[2]};
        bool done = false;
        if constexpr (std::is_same_v<Real, float>) {
            done = static_cast<bool>(options_.instead);
            if (done)
                options_.instead(operation_, rows[0], rows[1], rows[2], out_, format_, projection_,
                                 seed, threads);
        }
        if (!done)
            arithmetic(operation_, rows[0], rows[1], rows[2], std::span<Real>(out_), format_,
                       projection_, seed, threads);
        OperationTally tally;
        tally.cases = count;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint64_t random = word(i);
            const Real expected = oracle_.result(rows_[0][i], rows_[1][i], rows_[2][i], random);
            if (bits_of(expected) == bits_of(out_[i])) continue;
            if (tally.mismatches++ > 0) continue;
            tally.first_place = first + i;
            tally.first = {format_.name(),
                           operation_,
                           projection_,
                           std::is_same_v<Real, double>,
                           {bits_of(rows_[0][i]), bits_of(rows_[1][i]), bits_of(rows_[2][i])},
                           bits_of(expected),
                           bits_of(out_[i]),
                           random};
        }
        return tally;
    }

private:
    const FloatFormat format_;
    const Operation operation_;
    const Projection projection_;
    const OperationOptions options_;
    const Operands<Real>& operands_;
    OperationOracle<Real> oracle_;
    std::vector<Real> rows_[3], out_;
};

template <class Real>
OperationResult run(const FloatFormat& format, Operation operation, const Projection& projection,
                    const OperationOptions& options, const Progress& progress) {
    constexpr std::uint64_t chunk = 1 << 15;  // two pieces of arithmetic(), so that its threads are
                                              // tested too
    const Operands<Real> operands(format, operation, projection, options.exhaustive, options.seed);
    OperationResult result;
    const OperationTally tally = in_chunks<OperationTally>(
        operands.listed() + options.samples, chunk, options.threads, progress, result.stopped, [&] {
            return [&, worker = std::make_shared<Worker<Real>>(
                           format, operation, projection, options, operands)](std::uint64_t first,
                                                                              std::uint64_t last) {
                return (*worker)(first, last, first / chunk % 8 == 0 ? 2 : 1);
            };
        });
    result.cases = tally.cases;
    result.mismatches = tally.mismatches;
    if (tally.mismatches > 0) result.first = tally.first;
    return result;
}

}  // namespace

template <class Real>
OperationOracle<Real>::OperationOracle(const FloatFormat& format, Operation operation,
                                       const Projection& projection)
    : operation_(operation), projection_(projection), smallest_normal_(format.smallest_normal()),
      oracle_(format, of_results(projection)) {
    mpfr_inits2(std::numeric_limits<double>::digits, a_, b_, c_, static_cast<mpfr_ptr>(nullptr));
    mpfr_init2(result_, MpfrOracle::most_precision);
}

template <class Real>
OperationOracle<Real>::~OperationOracle() {
    mpfr_clears(a_, b_, c_, result_, static_cast<mpfr_ptr>(nullptr));
}

template <class Real>
double OperationOracle<Real>::input(Real x) const {
    const auto wide = static_cast<double>(x);
    const bool flushed = projection_.flushes_input() && std::fabs(wide) < smallest_normal_;
    return flushed ? std::copysign(0.0, wide) : wide;
}

// Sets result_ to the result, rounded in `direction`. Returns 0 if it is exact.
template <class Real>
int OperationOracle<Real>::apply(mpfr_rnd_t direction) {
    switch (operation_) {
        case Operation::add: return mpfr_add(result_, a_, b_, direction);
        case Operation::subtract: return mpfr_sub(result_, a_, b_, direction);
        case Operation::multiply: return mpfr_mul(result_, a_, b_, direction);
        case Operation::divide: return mpfr_div(result_, a_, b_, direction);
        case Operation::sqrt: return mpfr_sqrt(result_, a_, direction);
        case Operation::fma: return mpfr_fma(result_, a_, b_, c_, direction);
    }
    throw std::logic_error("unknown operation");
}

template <class Real>
Real OperationOracle<Real>::result(Real a, Real b, Real c, std::uint64_t random) {
    mpfr_set_d(a_, input(a), MPFR_RNDN);
    mpfr_set_d(b_, input(b), MPFR_RNDN);
    mpfr_set_d(c_, input(c), MPFR_RNDN);
    const bool cut = apply(MPFR_RNDZ) != 0;
    // The rounding direction changes the sign of a zero sum, but no other exact result.
    if (projection_.rounding == RoundingMode::toward_negative && !cut && mpfr_zero_p(result_))
        apply(MPFR_RNDD);
    return static_cast<Real>(oracle_.project(result_, cut, random));
}

template class OperationOracle<float>;
template class OperationOracle<double>;

OperationResult verify_operation(const FloatFormat& format, Operation operation,
                                 const Projection& projection, const OperationOptions& options,
                                 const Progress& progress) {
    validate(format);
    validate(projection, format);
    OperationResult result;
    if (format.fits_fp32()) {
        result = run<float>(format, operation, projection, options, progress);
    } else if constexpr (!has_arithmetic<double>) {
        throw std::invalid_argument(
            "arithmetic works on fp32 numbers, which do not include the values of " +
            format.name());
    }
    if constexpr (has_arithmetic<double>) {
        if (result.stopped) return result;
        const OperationResult wide = run<double>(format, operation, projection, options, progress);
        result.cases += wide.cases;
        result.mismatches += wide.mismatches;
        result.stopped = wide.stopped;
        if (!result.first) result.first = wide.first;
    }
    return result;
}

std::string describe(const OperationMismatch& m) {
    std::string text = std::string(to_string(m.operation)) + " in " + m.format + ", " +
                       std::string(to_string(m.projection.rounding)) + ", overflow " +
                       std::string(to_string(m.projection.overflow));
    if (m.projection.underflow != Underflow::gradual)
        text += ", underflow " + std::string(to_string(m.projection.underflow));
    text += ": operands ";
    for (int i = 0; i < operand_count(m.operation); ++i)
        text += (i > 0 ? ", " : "") + show_number(m.operands[i], m.fp64);
    text += ", expected " + show_number(m.expected, m.fp64) + ", got " + show_number(m.got, m.fp64);
    if (is_stochastic(m.projection.rounding)) {
        char word[64];
        std::snprintf(word, sizeof word, "; random word 0x%016llX of %d bits",
                      static_cast<unsigned long long>(m.random), m.projection.random_bits);
        text += word;
    }
    return text;
}

}  // namespace apscope::detail::oracle
