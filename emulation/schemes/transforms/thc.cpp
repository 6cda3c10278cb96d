// thc: all workers apply the same random rotation and round to the same table of integers, which a
// network can add without decoding.
//
//      x'   = H D (x, zeros)           D: random signs; H: Walsh-Hadamard; 2^p elements
//      norm = max over w of |x_w|_2    = max |x'_w|_2, so x' sqrt(2^p) / norm is about N(0, 1)
//      z    = clamp(x' sqrt(2^p) / norm, -T, T)
//      j    = z rounded stochastically to 2^bits of the points (2 j / g - 1) T, j = 0..g
//      y    = D H ((2 (sum over w of j) / g - W) T norm / sqrt(2^p))
//
// The table has the 2^bits points for which rounding adds the least variance to a normal
// distribution (codecs/normal_levels.h), with table=symmetric those of the symmetric tables, which
// are the published ones. In the authors' code, z is first rounded stochastically to a grid of
// 1001 even points (key `grid`), H transforms blocks of 1024 elements (`rotation`), and D is drawn
// once (`signs`).
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/parse.h"
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
void flip(const RandomStream& stream, std::span<const double> row, Row& to) {
    const std::size_t count = std::min(row.size(), to.size());
    for_drawn<double>(stream, 0, count, [&](std::size_t begin, std::size_t n, const double* signs) {
        simd::run<FlipSigns>(row.data() + begin, signs, n, to.data() + begin);
    });
    std::fill(to.begin() + static_cast<std::ptrdiff_t>(count), to.end(), 0.0);
}

// The shared random rotation.
struct Rotation {
    std::size_t block;    // the length of the Hadamard transform; 0: the padded row's
    bool constant_signs;  // true: the signs are the same in every step, tensor and run

    std::size_t length(std::size_t padded) const {
        return block == 0 ? padded : std::min(block, padded);
    }
    RandomStream signs(const TrainingStep& step) const {
        RandomStream stream = step.shared_stream(1);
        if (constant_signs) stream.key = {42, 0};
        return stream;
    }
    Row turn(const TrainingStep& step, std::span<const double> row) const {
        Row turned(row.empty() ? 0 : std::bit_ceil(row.size()));
        flip(signs(step), row, turned);
        if (!turned.empty()) hadamard(turned, length(turned.size()));
        return turned;
    }
    // Applies the inverse rotation, and removes the elements beyond the tensor's `size`.
    void turn_back(const TrainingStep& step, std::size_t size, Row& row) const {
        if (row.empty()) return;
        hadamard(row, length(row.size()));
        Row flipped(size);
        flip(signs(step), row, flipped);
        row = std::move(flipped);
    }
    // Replaces the variances of the rotated elements by those of the tensor's `size` elements: the
    // inverse rotation makes every element a sum of a block, each element times plus or minus 1 /
    // sqrt(length).
    void turn_back_variance(std::size_t size, Row& variance) const {
        if (variance.empty()) return;
        const std::size_t n = length(variance.size());
        for (std::size_t first = 0; first < size; first += n) {
            const auto part = std::span(variance).subspan(first, n);
            const double sum = fixed_sum_of(RowReader::of(part), [](double v) { return v; });
            std::ranges::fill(part, sum / static_cast<double>(n));
        }
        variance.resize(size);
    }
};

// Two stochastic roundings: to a grid of even points between -T and T, then from a grid point to
// the table.
class TwoRoundings {
public:
    TwoRoundings(std::span<const double> entries, const NormalPoints& points, long count)
        : clamp_(points.clamp), delta_(2.0 * points.clamp / static_cast<double>(count - 1)) {
        const double g = points.g, last = static_cast<double>(count - 1);
        std::size_t below = 0;
        for (long i = 0; i < count; ++i) {
            // The grid point is the number at / last of the table's integers 0..g.
            const double at = static_cast<double>(i) * g;
            while (below + 2 < entries.size() && entries[below + 1] * last <= at) ++below;
            const double low = entries[below], gap = entries[below + 1] - low;
            const double up = std::floor((at - low * last) / (gap * last) * words), p = up / words;
            const double unit = 2.0 / g * points.clamp;
            grid_.push_back({static_cast<double>(below), up,
                             (2.0 * (low + p * gap) / g - 1.0) * points.clamp,
                             p * (1.0 - p) * ((gap * unit) * (gap * unit))});
        }
    }

    // Writes codes, values and moments of x into a message after prepare(), from the message's
    // element `at` on.
    void put(Message& m, std::size_t at, std::span<const double> x, const Row& levels, double scale,
             const RandomStream& to_grid, const RandomStream& to_table) const {
        double random[random_group];
        for_drawn<double>(
            to_grid, at, x.size(), [&](std::size_t begin, std::size_t n, const double* first) {
                random_words(to_table, at + begin, n, random);
                for (std::size_t i = 0; i < n; ++i)
                    put_one(m, at + begin + i, x[begin + i], levels, scale, first[i], random[i]);
            });
    }

private:
    static constexpr double words = 0x1p32;  // the number of random words
    // Rounding of a grid point: the level below, the number of words that go to the next level,
    // and the mean and the variance of the result.
    struct GridPoint {
        double below, up, mean, variance;
    };

    void put_one(Message& m, std::size_t i, double x, const Row& levels, double scale, double first,
                 double second) const {
        const double z = std::clamp(x / scale, -clamp_, clamp_), place = (z + clamp_) / delta_;
        const std::size_t last = grid_.size() - 1,
                          lower = std::min(static_cast<std::size_t>(place), last),
                          upper = std::min(lower + 1, last);
        const double up = std::floor((place - static_cast<double>(lower)) * words), p = up / words;
        const GridPoint &low = grid_[lower], &high = grid_[upper];
        const GridPoint& taken = up + first >= words ? high : low;
        const double code = taken.below + (taken.up + second >= words ? 1.0 : 0.0);
        const double gap = high.mean - low.mean;
        m.codes[i] = code;
        m.values[i] = levels[static_cast<std::size_t>(code)] * scale;
        m.bias[i] = (low.mean + p * gap) * scale - x;
        m.variance[i] = ((1.0 - p) * low.variance + p * high.variance + p * (1.0 - p) * gap * gap) *
                        (scale * scale);
    }

    double clamp_, delta_;
    std::vector<GridPoint> grid_;
};

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
    NormalPoints points;
    Row entries;        // entries of the table, which are the integers j, by code
    LevelTable levels;  // the numbers (2 j / g - 1) T of these entries
    int bits;
    Rotation rotation;
    std::optional<TwoRoundings> two_roundings;

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
        const Row x = rotation.turn(p.step, p.x);
        m.prepare(x.size(), true, true);
        const RandomStream stream = p.stream(32);
        const double scale = p.theta.common_scale();
        const auto look_up = [&](std::size_t first, std::size_t count) {
            simd::run<LookUp>(entries.data(), m.codes.data() + first, count);
        };
        for (std::size_t first = 0; first < x.size(); first += sum_block) {
            const std::size_t count = std::min(sum_block, x.size() - first);
            const auto part = std::span(x).subspan(first, count);
            if (two_roundings)
                two_roundings->put(m, first, part, levels.levels(), scale, stream, p.stream(32, 1));
            else put_levels(m, first, part, levels, scale, LevelRule::stochastic, stream, first);
            if (!p.packs()) look_up(first, count);
        }
        set_payload(m, bits, p.packs());
        if (p.packs()) look_up(0, x.size());
        m.side_bits = m.tensor_bits = 32;
        if (p.theta.of<Norm>().zero) {
            for (Row* part : {&m.values, &m.bias, &m.variance}) part->assign(x.size(), 0.0);
        }
        rotation.turn_back(p.step, n, m.values);
        rotation.turn_back(p.step, n, m.bias);
        rotation.turn_back_variance(n, m.variance);
    }
    void decode(const TrainingStep& step, const Parameters& theta, Row& sum) const {
        const std::size_t n = std::min(elements_of(step), sum.size());
        if (theta.of<Norm>().zero) {
            sum.assign(n, 0.0);
            return;
        }
        for (double& s : sum)
            s = (2.0 * s / points.g - step.workers) * points.clamp * theta.common_scale();
        rotation.turn_back(step, n, sum);
    }
};

Rotation rotation_of(const SchemeArguments& arguments) {
    constexpr std::array<std::string_view, 2> signs{"step", "constant"};
    Rotation rotation{0, arguments.choice("signs", signs) == "constant"};
    if (arguments.text("rotation") == "full") return rotation;
    rotation.block =
        static_cast<std::size_t>(arguments.integer("rotation", 1, largest_count, "full"));
    if (!std::has_single_bit(rotation.block)) {
        throw std::invalid_argument("rotation=" + arguments.text("rotation") +
                                    " is neither full nor a power of two (such as 1024)");
    }
    return rotation;
}

Thc thc_of(const SchemeArguments& arguments) {
    constexpr std::array<std::string_view, 2> tables{"optimal", "symmetric"};
    const bool symmetric = arguments.choice("table", tables) == "symmetric";
    const int bits = static_cast<int>(arguments.integer("bits", 1, 8)), codes = 1 << bits;
    const NormalPoints points{static_cast<int>(arguments.integer(
                                  "granularity", std::max(1, codes - (symmetric ? 2 : 1)), 1000)),
                              arguments.number("clamp", 0.5, 8.0)};
    std::vector<int> table =
        symmetric ? symmetric_normal_levels(codes, points) : normal_levels(codes, points);
    // An integer that is in the table twice has one code.
    table.erase(std::ranges::unique(table).begin(), table.end());
    Row levels;
    for (const int j : table) levels.push_back(points.level(j));
    const Row entries(table.begin(), table.end());
    const long grid = arguments.integer("grid", 0, 100'000);
    if (grid == 1) throw std::invalid_argument("grid=1 has one point; use 0, or at least 2");
    return {points,
            entries,
            LevelTable(std::move(levels)),
            bits,
            rotation_of(arguments),
            grid == 0 ? std::nullopt : std::optional(TwoRoundings(entries, points, grid))};
}

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
                  "g: the table's entries are integers from 0 to g, up to 1000"},
                 {"table", "optimal",
                  "the table of least variance of all (optimal) or of the symmetric ones "
                  "(symmetric: the published tables)"},
                 {"clamp", "2.1538746940614573",
                  "T: values beyond -T and T are clamped; 1/32 of N(0, 1) lies beyond the default"},
                 {"grid", "0",
                  "points of an even grid to which values are first rounded stochastically, 1001 "
                  "or 10001 in the authors' code; 0: none"},
                 {"rotation", "full",
                  "length of the Hadamard transform: full, or a power of two, 1024 in the authors' "
                  "code"},
                 {"signs", "step",
                  "signs of the rotation: drawn for each tensor at each step (step), or constant"},
                 correlated_key},
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            const Thc thc = thc_of(arguments);
            const int bits = thc.bits, g = thc.points.g;
            return {
                .grid = "levels:" + std::to_string(thc.entries.size()),
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
