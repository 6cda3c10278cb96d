// thc: all workers apply the same random rotation and round to the same table of integers, which a
// network can add without decoding.
//
//      x'   = H D (x, zeros)           D: random signs; H: Walsh-Hadamard, of 2^p elements
//      norm = max over w of |x_w|_2    = max |x'_w|_2, so x' sqrt(2^p) / norm is about N(0, 1)
//      z    = clamp(x' sqrt(2^p) / norm, -T, T)
//      j    = z rounded stochastically to 2^bits of the points (2 j / g - 1) T, j = 0..g
//      y    = D H ((2 (sum over w of j) / g - W) T norm / sqrt(2^p))
//
// 1/32 of a normal distribution lies outside of [-T, T]. The table has the 2^bits points for which
// rounding adds the least variance to a normal distribution (codecs/normal_levels.h; the published
// table is not used).
#include <algorithm>
#include <bit>
#include <cmath>

#include "emulation/draws/random_words.h"
#include "emulation/machine/simd.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/codecs/hadamard.h"
#include "emulation/schemes/codecs/levels.h"
#include "emulation/schemes/codecs/normal_levels.h"
#include "emulation/schemes/codecs/statistics.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

struct FlipSigns {
    static APSCOPE_INLINE void run(const double* row, const double* signs, std::size_t count,
                                   double* to) {
#pragma GCC ivdep  // the rows do not overlap
        for (std::size_t i = 0; i < count; ++i) to[i] = signs[i] != 0.0 ? -row[i] : row[i];
    }
};
// Computes to = D row. If `to` is longer than `row`, its other elements become 0; if it is shorter,
// the other elements of `row` are ignored.
void flip(const TrainingStep& step, std::span<const double> row, Row& to) {
    const std::size_t count = std::min(row.size(), to.size());
    for_drawn<double>(step.shared_stream(1), 0, count,
                      [&](std::size_t begin, std::size_t n, const double* signs) {
                          simd::run<FlipSigns>(row.data() + begin, signs, n, to.data() + begin);
                      });
    std::fill(to.begin() + static_cast<std::ptrdiff_t>(count), to.end(), 0.0);
}

struct LookUp {
    static APSCOPE_INLINE void run(const double* table, double* codes, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i)
            codes[i] = table[static_cast<std::int32_t>(codes[i])];
    }
};

struct Norm {
    bool zero = false;  // true: the norm is 0, so all elements are 0

    void fields(Fields& f) { f.numbers("zero", zero); }
};

struct Thc {
    int g;
    Row entries;        // entries of the table, which are the integers j, by code
    LevelTable levels;  // the numbers (2 j / g - 1) T of these entries

    static Row turn(const TrainingStep& step, std::span<const double> row) {
        Row turned(row.empty() ? 0 : std::bit_ceil(row.size()));
        flip(step, row, turned);
        if (!turned.empty()) hadamard(turned, turned.size());
        return turned;
    }
    // Applies the inverse rotation, and removes the elements beyond the tensor's length.
    static void turn_back(const TrainingStep& step, std::size_t length, Row& row) {
        if (row.empty()) return;
        hadamard(row, row.size());
        Row flipped(length);
        flip(step, row, flipped);
        row = std::move(flipped);
    }
    // The norm |row|_2, times 2^-exponent.
    static double norm_of(const RowReader& row, int exponent) {
        const Power power(-exponent);
        const auto norm = [&](const auto& square_of) {
            return std::sqrt(fixed_sum_of(row, square_of));
        };
        if (!power.is_normal())
            return norm([power](double v) { return power.times(v) * power.times(v); });
        return norm([factor = power.factor()](double v) { return (v * factor) * (v * factor); });
    }
    static Parameters select(std::span<const RowReader> x) {
        double norm = 0.0, amax = 0.0;
        int exponent = 0;
        for (const RowReader& row : x) amax = std::max(amax, amax_of(row));
        // The norms are those of 2^-exponent x, so that squares stay within the range of fp64.
        std::frexp(amax, &exponent);
        for (const RowReader& row : x) norm = std::max(norm, norm_of(row, exponent));
        Parameters theta;
        theta.scale =
            amax == 0.0
                ? 1.0
                : std::ldexp(norm / std::sqrt(static_cast<double>(std::bit_ceil(x[0].size))),
                             exponent);
        theta.extra.of<Norm>().zero = amax == 0.0;
        return theta;
    }
    void encode(const RowPiece& p, Message& m) const {
        const std::size_t n = p.x.size();
        const Row x = turn(p.step, p.x);
        m.prepare(x.size(), true, true);
        const RandomStream stream = p.stream(32);
        const auto look_up = [&](std::size_t first, std::size_t count) {
            simd::run<LookUp>(entries.data(), m.codes.data() + first, count);
        };
        for (std::size_t first = 0; first < x.size(); first += sum_block) {
            const std::size_t count = std::min(sum_block, x.size() - first);
            put_levels(m, first, std::span(x).subspan(first, count), levels, p.theta.common_scale(),
                       LevelRule::stochastic, stream, first);
            if (!p.packs()) look_up(first, count);
        }
        set_payload(m, level_bits(entries.size()), p.packs());
        if (p.packs()) look_up(0, x.size());
        m.side_bits = m.tensor_bits = 32;
        if (p.theta.of<Norm>().zero) {
            for (Row* part : {&m.values, &m.bias, &m.variance}) part->assign(x.size(), 0.0);
        }
        turn_back(p.step, n, m.values);
        turn_back(p.step, n, m.bias);
        // The inverse rotation makes every element a sum of all x.size() elements, each times plus
        // or minus 1 / sqrt(x.size()).
        const double sum = fixed_sum_of(RowReader::of(m.variance), [](double v) { return v; });
        m.variance.assign(n, sum / static_cast<double>(x.size()));
    }
    void decode(const TrainingStep& step, const Parameters& theta, Row& sum) const {
        if (theta.of<Norm>().zero) std::fill(sum.begin(), sum.end(), 0.0);
        else
            for (double& s : sum)
                s = (2.0 * s / g - step.workers) * normal_clamp * theta.common_scale();
        turn_back(step, std::min(elements_of(step), sum.size()), sum);
    }
};

}  // namespace

SchemeDefinition thc_definition() {
    return {
        .class_name = "THC",
        .summary =
            "a shared random rotation, an agreed norm, a table whose entries add up as integers",
        .source = "Li et al., THC: Accelerating Distributed Deep Learning Using Tensor Homomorphic "
                  "Compression, NSDI 2024 (arXiv:2302.08545)",
        .needs = "gradients",
        .keys = {{"bits", "4", "bits of a code, 1 to 8"},
                 {"granularity", "30",
                  "g: the table's entries are integers from 0 to g, up to 1000"}},
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            const int bits = static_cast<int>(arguments.integer("bits", 1, 8));
            const int codes = 1 << bits;
            const int g = static_cast<int>(arguments.integer("granularity", codes - 1, 1000));
            Row entries, levels;
            for (const int j : normal_levels(codes, g)) {
                entries.push_back(j);
                levels.push_back(normal_level(j, g));
            }
            const Thc thc{g, std::move(entries), LevelTable(std::move(levels))};
            return {
                .grid = "levels:" + std::to_string(codes),
                .topology = std::string(reductions::code_sum),
                .transport = {.code_bits = bits,
                              .sum_bits = [g](int workers) { return bits_of_sum(workers, g); },
                              .agreed_bits = all_side_bits},
                .run = whole_row,
                .choice = {.select = [](const Selection& s) { return Thc::select(s.rows); }},
                .encoding = {.encode = [thc](const RowPiece& p, Message& m) { thc.encode(p, m); },
                             .decode_sum = [thc](const TrainingStep& step, const Parameters& theta,
                                                 Row& sum) { thc.decode(step, theta, sum); },
                             .draws = true,
                             .is_exact_sum = true,
                             .mixes_elements = true}};
        }};
}

}  // namespace apscope::detail
