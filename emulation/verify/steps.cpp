#include "emulation/verify/steps.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <future>
#include <limits>
#include <stdexcept>

#include "core/oracle/mpfr_oracle.h"
#include "emulation/cast/cast_plan.h"
#include "emulation/cast/quantize.h"
#include "emulation/machine/simd.h"
#include "emulation/verify/chunks.h"

namespace apscope::detail::oracle {
namespace {

constexpr std::uint32_t sign_bit = 0x80000000, infinity_bits = 0x7F800000;

// The loops over inputs and results process as many numbers as the array path, so they are
// vectorised too.
struct WriteInputs {
    static APSCOPE_INLINE void run(std::uint32_t first, float* in, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i)
            in[i] = std::bit_cast<float>(first + static_cast<std::uint32_t>(i));
    }
};
struct WriteResults {
    static APSCOPE_INLINE void run(std::uint32_t result, std::uint32_t* results,
                                   std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) results[i] = result;
    }
};

class Finder {
public:
    Finder(const FloatFormat& format, const Projection& projection, bool negative)
        : oracle_(format, projection), mpfr_(format, projection), sign_(negative ? sign_bit : 0) {
        stretch(0, 0);
        const bool flushes = projection.underflow != Underflow::gradual;
        const std::uint32_t normal =
            flushes ? bits_of(static_cast<float>(format.smallest_normal())) : 1;
        if (normal > 1) stretch(1, normal - 1);
        stretch(normal, infinity_bits - 1);
        stretch(infinity_bits, infinity_bits);
        confirm();
    }
    std::vector<Step> take() { return std::move(steps_); }

private:
    std::uint32_t result(std::uint32_t magnitude) const {
        return bits_of(oracle_.project(std::bit_cast<float>(magnitude | sign_), 0));
    }
    // Adds the steps of the magnitudes from `first` to `last`, over which the results must be
    // monotone.
    void stretch(std::uint32_t first, std::uint32_t last) {
        const std::size_t before = steps_.size();
        steps_.push_back({first | sign_, result(first)});
        bisect(first, steps_.back().result, last, result(last));
        for (std::size_t i = before + 1; i < steps_.size(); ++i) {
            const auto magnitude = [&](std::size_t k) { return steps_[k].result & ~sign_bit; };
            if (magnitude(i) <= magnitude(i - 1))
                throw std::logic_error("the oracle's results are not in the order of their inputs");
        }
    }
    void bisect(std::uint32_t low, std::uint32_t at_low, std::uint32_t high,
                std::uint32_t at_high) {
        if (at_low == at_high) return;
        if (high - low == 1) {
            steps_.push_back({high | sign_, at_high});
            return;
        }
        const std::uint32_t middle = low + (high - low) / 2, at_middle = result(middle);
        bisect(low, at_low, middle, at_middle);
        bisect(middle, at_middle, high, at_high);
    }
    void confirm() {
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            const std::uint32_t last =
                i + 1 < steps_.size() ? steps_[i + 1].first - 1 : steps_[i].first;
            for (const std::uint32_t input : {steps_[i].first, last}) {
                if (bits_of(mpfr_.project(std::bit_cast<float>(input), 0)) != steps_[i].result)
                    throw std::logic_error("the two oracles differ at the input " +
                                           show_number(input, false));
            }
        }
    }

    const RationalOracle oracle_;
    MpfrOracle mpfr_;
    const std::uint32_t sign_;
    std::vector<Step> steps_;
};

}  // namespace

Staircase::Staircase(const FloatFormat& format, const Projection& projection, int threads)
    : oracle(format, projection) {
    if (is_stochastic(projection.rounding))
        throw std::logic_error("a stochastic rounding has no steps");
    const auto find = [&](bool is_negative) {
        return Finder(format, projection, is_negative).take();
    };
    auto other = std::async(threads > 1 ? std::launch::async : std::launch::deferred, find, true);
    positive = find(false);
    negative = other.get();
}

void Staircase::fill(std::uint32_t first, std::span<std::uint32_t> results) const {
    std::uint64_t input = first;
    const std::uint64_t end = input + results.size();
    const auto place = [&](std::uint64_t i) { return results.data() + (i - first); };
    while (input < end) {
        const std::uint64_t sign = input & sign_bit, nans = sign + infinity_bits + 1,
                            after = sign + sign_bit;
        const std::vector<Step>& steps = sign != 0 ? negative : positive;
        auto step = std::upper_bound(steps.begin(), steps.end(), input,
                                     [](std::uint64_t i, const Step& s) { return i < s.first; }) -
                    1;
        while (input < std::min(end, nans)) {
            const bool is_last = step + 1 == steps.end();
            const std::uint64_t last =
                std::min<std::uint64_t>(end, is_last ? nans : (step + 1)->first);
            simd::run<WriteResults>(step->result, place(input), last - input);
            input = last;
            ++step;
        }
        for (; input < std::min(end, after); ++input) {
            *place(input) =
                bits_of(oracle.project(std::bit_cast<float>(static_cast<std::uint32_t>(input)), 0));
        }
    }
}

Tally arrays_against_steps(const FloatFormat& format, const Projection& projection,
                           const Staircase& expected, int threads, const Progress& progress,
                           bool& stopped) {
    // Array paths round a buffer a second time if its largest magnitude requires it
    // (quantize_buffers.h), so each run of inputs follows a zero or an infinity. On the machine's
    // best instruction set, both loops are tested on every input; on the others, the runs alternate
    // between the two loops. The arrays stay in the L2 cache.
    constexpr std::uint64_t run = 512, runs = 32, chunk = runs * (run - 1);
    const CastPath path = make_plan<float>(format, projection).path;
    const bool looks_ahead = path == CastPath::addition || path == CastPath::split;
    const bool best = simd_level() == best_simd_level();
    return in_chunks<Tally>(std::uint64_t{1} << 32, chunk, threads, progress, stopped, [&] {
        return [&, in = std::vector<float>(runs * run), out = std::vector<float>(runs * run),
                results = std::vector<std::uint32_t>(chunk)](std::uint64_t start,
                                                             std::uint64_t end) mutable {
            const auto first = static_cast<std::uint32_t>(start),
                       count = static_cast<std::uint32_t>(end - start);
            // Calls f(place, i, n) for every run: `place` is the index of the run in the arrays, i
            // the number of its first input in the chunk, n its length.
            const auto each_run = [&](const auto& f) {
                for (std::uint32_t i = 0, place = 1; i < count; i += run - 1, place += run)
                    f(place, i, std::min<std::uint32_t>(run - 1, count - i));
            };
            const auto behind = [&](float even, float odd) {
                for (std::uint64_t place = 0; place < in.size(); place += run)
                    in[place] = place / run % 2 == 0 ? even : odd;
            };
            constexpr float infinity = std::numeric_limits<float>::infinity();
            each_run([&](std::uint32_t place, std::uint32_t i, std::uint32_t n) {
                simd::run<WriteInputs>(first + i, &in[place], n);
            });
            expected.fill(first, std::span(results).first(count));
            Tally tally;
            const auto compare = [&](const char* what) {
                each_run([&](std::uint32_t place, std::uint32_t i, std::uint32_t n) {
                    if (std::memcmp(&out[place], &results[i], n * sizeof(float)) == 0) {
                        tally.cases += n;
                        return;
                    }
                    for (std::uint32_t k = i; k < i + n; ++k) {
                        tally.compare(first_exhaustive_place + start + k, what, first + k,
                                      results[k], bits_of(out[place + k - i]));
                    }
                });
            };
            behind(0.0f, best ? 0.0f : infinity);
            quantize(in, out, format, projection);
            compare("the array path against the oracle");
            if (looks_ahead && best) {
                behind(infinity, infinity);
                quantize(in, out, format, projection);
                compare("the array path beside infinities against the oracle");
            }
            return tally;
        };
    });
}

}  // namespace apscope::detail::oracle
