#include "emulation/arithmetic/ordered_sum.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "core/exact_accumulator.h"
#include "core/limits.h"
#include "core/named_formats.h"
#include "core/parse.h"
#include "core/sizes.h"
#include "emulation/arithmetic/arithmetic_kernels.h"
#include "emulation/arithmetic/kahan.h"
#include "emulation/arithmetic/register_sum.h"
#include "emulation/arithmetic/unit_sum.h"
#include "emulation/draws/random_words.h"
#include "emulation/machine/parallel.h"

namespace apscope::detail {

namespace {

// The number of outputs that are computed at a time; their rows stay in the cache.
constexpr std::size_t tile = 256;
using Row = std::vector<double>;

struct Rounders {
    Rounder sum;
    std::optional<Rounder> product, result;
    // True if exact products are added by fused multiply-adds, because fp64 cannot represent all of
    // them or because operands are flushed.
    bool fused() const { return !product && (!sum.narrow || sum.operand_floor != 0); }
};

// The terms of the outputs in a tile, before any rounding. load(k, a, b) writes term k of every
// output to a or, if `products`, the factors of product k to a and b.
struct Terms {
    std::function<void(std::size_t, double*, double*)> load;
    bool products = false;
};

// Computes the sums of one tile of outputs, which are elements first .. first + count - 1 of the
// flat result.
class TileSum {
public:
    TileSum(const SumOptions& options, const Rounders& rounders, const Terms& terms,
            std::size_t first, std::size_t count)
        : options_(options), rounders_(rounders), terms_(terms), first_(first), count_(count),
          fused_(terms.products && rounders.fused()), a_(count), b_(count), term_(count),
          scratch_(count) {}

    Row run(std::size_t terms) {
        Row sum(count_, 0.0);
        using Kind = SumOrder::Kind;
        if (options_.order.kind == Kind::exact) {
            if (rounders_.sum.narrow) exact<Fp32ProductSum>(terms, sum);
            else exact<Fp64ProductSum>(terms, sum);
        } else if (terms == 0) {
            round(sum);
        } else if (options_.order.kind == Kind::sequential) {
            sequential(0, terms, sum);
        } else if (options_.order.kind == Kind::pairwise) {
            pairwise(terms, sum);
        } else if (options_.order.kind == Kind::chunked) {
            chunked(terms, sum);
        } else {
            kahan(terms, sum);
        }
        if (rounders_.result)
            rounders_.result->round(sum.data(), count_, stream(Stage::quantize, 0), first_);
        return sum;
    }

private:
    RandomStream stream(Stage stage, std::size_t hop) const {
        return {seed_key(options_.seed), 0, stage_and_hop(stage, static_cast<std::uint32_t>(hop)),
                options_.projection.random_bits};
    }
    void apply(Operation operation, const Row& a, const Row& b, const Row& c, Row& out) {
        rounders_.sum.apply(operation, a.data(), b.data(), c.data(), out.data(), count_,
                            stream(Stage::reduce, hop_++), first_);
    }

    // Loads term k: a number, or a product that is rounded to its format or exact in fp64.
    void load(std::size_t k, Row& row) {
        if (!terms_.products) return terms_.load(k, row.data(), nullptr);
        terms_.load(k, a_.data(), b_.data());
        if (rounders_.product) {
            rounders_.product->apply(Operation::multiply, a_.data(), b_.data(), b_.data(),
                                     row.data(), count_, stream(Stage::wire, k), first_);
        } else {
            std::transform(a_.begin(), a_.end(), b_.begin(), row.begin(), std::multiplies<>());
        }
    }
    // sum = round(term k)
    void begin(std::size_t k, Row& sum) {
        if (fused_) {
            terms_.load(k, a_.data(), b_.data());
            apply(Operation::multiply, a_, b_, b_, sum);
        } else {
            load(k, sum);
            round(sum);
        }
    }
    // out = round(sum + term k)
    void add_term(std::size_t k, const Row& sum, Row& out) {
        if (fused_) {
            terms_.load(k, a_.data(), b_.data());
            apply(Operation::fma, a_, b_, sum, out);
        } else {
            load(k, term_);
            apply(Operation::add, sum, term_, term_, out);
        }
    }
    void round(Row& row) {
        rounders_.sum.round(row.data(), count_, stream(Stage::reduce, hop_++), first_);
    }

    void sequential(std::size_t first, std::size_t end, Row& sum) {
        begin(first, sum);
        for (std::size_t k = first + 1; k < end; ++k) add_term(k, sum, sum);
    }

    void chunked(std::size_t terms, Row& sum) {
        for (std::size_t first = 0; first < terms; first += options_.order.chunk) {
            const std::size_t end = std::min(terms, first + options_.order.chunk);
            if (first == 0) {
                sequential(first, end, sum);
            } else {
                sequential(first, end, scratch_);
                apply(Operation::add, sum, scratch_, scratch_, sum);
            }
        }
    }

    // A stack has sums of 2^level terms, which are merged like the digits of a binary counter.
    void pairwise(std::size_t terms, Row& sum) {
        std::vector<Row> stack;
        const auto merge = [&] {
            Row last = std::move(stack.back());
            stack.pop_back();
            apply(Operation::add, stack.back(), last, last, stack.back());
        };
        for (std::size_t k = 0; k < terms; ++k) {
            stack.emplace_back(count_);
            load(k, stack.back());
            for (std::size_t done = k + 1; done % 2 == 0; done /= 2) merge();
        }
        while (stack.size() > 1) merge();
        sum = stack.front();
        if (terms == 1) round(sum);
    }

    void kahan(std::size_t terms, Row& sum) {
        begin(0, sum);
        Row lost(count_, 0.0), next(count_), y(count_);
        for (std::size_t k = 1; k < terms; ++k) {
            if (!fused_) load(k, term_);
            kahan_add(term_, sum, lost, y, next,
                      [&](Row& out, const Row& a, int sign, const Row& b, int rounding) {
                          if (fused_ && rounding == 0) {
                              std::transform(b.begin(), b.end(), out.begin(), std::negate<>());
                              add_term(k, out, out);
                          } else {
                              apply(sign < 0 ? Operation::subtract : Operation::add, a, b, b, out);
                          }
                      });
            sum.swap(next);
        }
    }

    template <class Accumulator>
    void exact(std::size_t terms, Row& sum) {
        const Rounder& rounder = rounders_.sum;
        const auto flushed = [&](double x) {
            return rounder.operand_floor != 0 ? flush_operand(x, rounder.operand_floor) : x;
        };
        const bool products = terms_.products && !rounders_.product;
        std::vector<Accumulator> accumulators(count_);
        for (std::size_t k = 0; k < terms; ++k) {
            if (products) terms_.load(k, a_.data(), b_.data());
            else load(k, term_);
            for (std::size_t i = 0; i < count_; ++i) {
                if (!products) accumulators[i].add(flushed(term_[i]));
                else if (rounder.narrow) accumulators[i].add(flushed(a_[i]) * flushed(b_[i]));
                else accumulators[i].add_product(flushed(a_[i]), flushed(b_[i]));
            }
        }
        std::uint64_t words[tile];
        if (is_stochastic(rounder.cast.rounding))
            random_words(stream(Stage::reduce, 0), first_, count_, words);
        dispatch(rounder.cast.rounding, [&]<RoundingMode M>() {
            constexpr bool down = M == RoundingMode::toward_negative;
            for (std::size_t i = 0; i < count_; ++i) {
                Accumulator& a = accumulators[i];
                const std::uint64_t random = is_stochastic(M) ? words[i] : 0;
                const WideNumber total = a.total();
                if (a.finite() && total.significand != 0) {
                    sum[i] = wide_to_format<M>(total, rounder.cast, random);
                } else {
                    sum[i] = round_to_format<M, double>(a.finite() ? a.zero(down) : a.special(),
                                                        rounder.cast, random);
                }
            }
        });
    }

    const SumOptions& options_;
    const Rounders& rounders_;
    const Terms& terms_;
    std::size_t first_, count_;
    bool fused_;
    Row a_, b_, term_, scratch_;
    std::size_t hop_ = 0;
};

Rounders make_rounders(const SumOptions& options, std::size_t terms, bool products, bool narrow) {
    if (options.order.kind == SumOrder::Kind::exact && options.accumulate) {
        throw std::invalid_argument(
            "order=exact has no partial sums to round; leave out accumulate, which is " +
            options.accumulate->name());
    }
    if (is_stochastic(options.projection.rounding) && terms >= std::size_t{1} << 26) {
        throw std::invalid_argument(
            "a sum of " + std::to_string(terms) +
            " terms has more stochastic roundings than random streams; use fewer than 2^26 terms");
    }
    const auto rounder = [&](const FloatFormat& format) {
        if (narrow) require_fp32(format, "a sum of fp32 numbers");
        return make_rounder(format, options.projection, narrow);
    };
    Rounders r{rounder(options.accumulate.value_or(options.format)), {}, {}};
    if (options.product) r.product = rounder(*options.product);
    if (options.accumulate && *options.accumulate != options.format)
        r.result = rounder(options.format);
    if (products && r.fused() && options.order.kind == SumOrder::Kind::pairwise) {
        throw std::invalid_argument("order=pairwise adds two products at once, which are exact for "
                                    "fp32 numbers without flushed inputs only; "
                                    "give product, or use another order");
    }
    return r;
}

// Computes `rows` times `columns` outputs in tiles. load(row, k, column, count, a, b) writes the
// terms or factors k of the outputs column .. column + count - 1 of a row.
template <class Real, class Load>
void sum_tiles(std::size_t rows, std::size_t columns, std::size_t terms, std::span<Real> out,
               const SumOptions& options, const Rounders& rounders, bool products,
               const Load& load) {
    const std::size_t tiles = (columns + tile - 1) / tile;
    const auto sum_tile = [&](std::size_t item) {
        const std::size_t row = item / tiles, column = item % tiles * tile,
                          count = std::min(tile, columns - column);
        const Terms of_tile{
            [&](std::size_t k, double* a, double* b) { load(row, k, column, count, a, b); },
            products};
        const std::size_t first = row * columns + column;
        const Row sum = TileSum(options, rounders, of_tile, first, count).run(terms);
        std::transform(sum.begin(), sum.end(), out.data() + first,
                       [](double x) { return static_cast<Real>(x); });
    };
    parallel_pieces(rows * tiles, options.threads, sum_tile, std::min(tile, columns) * terms);
}

// Rounds the sums of the register path to the result's format.
void round_results(std::span<float> out, const Rounders& rounders, int threads) {
    if (!rounders.result) return;
    constexpr std::size_t piece = std::size_t{1} << 12;
    parallel_pieces((out.size() + piece - 1) / piece, threads, [&](std::size_t p) {
        const std::span<float> sums =
            out.subspan(p * piece, std::min(piece, out.size() - p * piece));
        Row row(sums.begin(), sums.end());
        rounders.result->round(row.data(), row.size(), RandomStream{}, 0);
        std::transform(row.begin(), row.end(), sums.begin(),
                       [](double x) { return static_cast<float>(x); });
    });
}

template <class Real>
void check_size(std::span<const Real> operand, std::size_t wanted, const char* what) {
    if (operand.size() != wanted) {
        throw std::invalid_argument("operand " + std::string(what) + " holds " +
                                    std::to_string(operand.size()) + " elements, not " +
                                    std::to_string(wanted));
    }
}

// fp32 numbers; throws std::invalid_argument for others.
template <class Real>
std::vector<float> fp32_numbers(std::span<const Real> x, const char* what) {
    std::vector<float> narrow(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
        narrow[i] = static_cast<float>(x[i]);
        if (static_cast<Real>(narrow[i]) != x[i] && x[i] == x[i])
            throw std::invalid_argument(
                std::string(what) + " has " + shortest(static_cast<double>(x[i])) + " at element " +
                std::to_string(i) + ", which is not an fp32 number; order=unit takes those only");
    }
    return narrow;
}

// Adds products as a matrix unit does and returns true, or returns false for another order.
template <class Real>
bool add_by_unit(std::span<const Real> a, std::span<const Real> b, std::span<const Real> c,
                 std::span<Real> out, const UnitProduct& sizes, const SumOptions& options,
                 const UnitScales<Real>& scales) {
    const MatrixUnitOrder* const order =
        unit_order(options, !c.empty(), !scales.a.empty() || !scales.b.empty());
    if (order == nullptr) return false;
    if constexpr (std::is_same_v<Real, float>) {
        unit_product(a, b, c, out, sizes, *order, options.threads, scales, options.registers);
    } else {
        const std::vector<float> of_a = fp32_numbers(scales.a, "the scales of a"),
                                 of_b = fp32_numbers(scales.b, "the scales of b");
        std::vector<float> sums(out.size());
        unit_product(fp32_numbers(a, "a"), fp32_numbers(b, "b"), fp32_numbers(c, "c"), sums, sizes,
                     *order, options.threads, {of_a, of_b}, options.registers);
        std::copy(sums.begin(), sums.end(), out.begin());
    }
    return true;
}

}  // namespace

const MatrixUnitOrder* unit_order(const SumOptions& options, bool has_c, bool has_scales) {
    if (options.order.kind != SumOrder::Kind::unit) {
        if (has_c)
            throw std::invalid_argument(
                "c is a term of order=unit:... only; without it, add c to the result");
        if (has_scales)
            throw std::invalid_argument(
                "scales are those of order=unit:... only; multiply the factors by them");
        return nullptr;
    }
    const MatrixUnitOrder& order = *options.order.unit;
    const FloatFormat result = parse_format(order.unit.half ? "fp16" : "fp32");
    if (options.format != result)
        throw std::invalid_argument("the results of order=" + limits::clipped(order.text) +
                                    " are " + result.name() + ", not " + options.format.name() +
                                    "; give " + result.name() + ", and quantize the result");
    if (options.product || options.accumulate || options.projection != Projection{})
        throw std::invalid_argument(
            "order=" + limits::clipped(order.text) +
            " has its own roundings; leave out product, accumulate and projections");
    return &order;
}

SumOrder parse_sum_order(std::string_view text) {
    using Kind = SumOrder::Kind;
    if (text == "sequential") return {Kind::sequential, 0};
    if (text == "pairwise") return {Kind::pairwise, 0};
    if (text == "kahan") return {Kind::kahan, 0};
    if (text == "exact") return {Kind::exact, 0};
    constexpr std::string_view prefix = "chunked:";
    if (text.starts_with(prefix)) {
        const std::size_t chunk = parse_number<std::size_t>(text.substr(prefix.size())).value_or(0);
        if (chunk > 0) return {Kind::chunked, chunk};
    }
    constexpr std::string_view unit = "unit:";
    if (text.starts_with(unit))
        return {Kind::unit, 0,
                std::make_shared<const MatrixUnitOrder>(
                    parse_matrix_unit_order(text.substr(unit.size())))};
    throw std::invalid_argument(
        "unknown order '" + std::string(text) +
        "'; use sequential, pairwise, chunked:N with N at least 1, kahan, exact or unit:NAME");
}

template <class Real>
void ordered_sum(std::span<const Real> x, std::size_t terms, std::span<Real> out,
                 const SumOptions& options) {
    const std::size_t n = out.size();
    check_size(x, checked_size({terms, n}, "x"), "x");
    if (options.order.kind == SumOrder::Kind::unit)
        throw std::invalid_argument("order=" + limits::clipped(options.order.unit->text) +
                                    " adds products; use it in dot or matmul");
    const Rounders rounders = make_rounders(options, terms, false, std::is_same_v<Real, float>);
    if constexpr (std::is_same_v<Real, float>) {
        if (n > 0 && terms > 0 && register_sum(x, terms, out, options))
            return round_results(out, rounders, options.threads);
    }
    sum_tiles(1, n, terms, out, options, rounders, false,
              [&](std::size_t, std::size_t k, std::size_t column, std::size_t count, double* a,
                  double*) { std::copy_n(x.data() + k * n + column, count, a); });
}

template <class Real>
void ordered_dot(std::span<const Real> a, std::span<const Real> b, std::size_t terms,
                 std::span<Real> out, const SumOptions& options, std::span<const Real> c) {
    const std::size_t n = out.size();
    const std::size_t size = checked_size({terms, n}, "a and b");
    check_size(a, size, "a");
    check_size(b, size, "b");
    if (add_by_unit(a, b, c, out, {n, 1, terms, 1, {1, 0, n}, {1, 0, n}}, options, {})) return;
    const Rounders rounders = make_rounders(options, terms, true, std::is_same_v<Real, float>);
    if constexpr (std::is_same_v<Real, float>) {
        if (n > 0 && terms > 0 && register_dot(a, b, terms, out, options))
            return round_results(out, rounders, options.threads);
    }
    sum_tiles(1, n, terms, out, options, rounders, true,
              [&](std::size_t, std::size_t k, std::size_t column, std::size_t count, double* x,
                  double* y) {
                  std::copy_n(a.data() + k * n + column, count, x);
                  std::copy_n(b.data() + k * n + column, count, y);
              });
}

template <class Real>
void ordered_matmul(std::span<const Real> a, std::span<const Real> b, std::size_t batches,
                    std::size_t rows, std::size_t terms, std::span<Real> out,
                    const SumOptions& options, std::span<const Real> c,
                    const UnitScales<Real>& scales) {
    const std::size_t all_rows = checked_size({batches, rows}, "the rows of a"),
                      columns = all_rows == 0 ? 0 : out.size() / all_rows;
    check_size(a, checked_size({batches, rows, terms}, "a"), "a");
    if (all_rows != 0) check_size(b, checked_size({batches, terms, columns}, "b"), "b");
    const UnitProduct sizes{
        batches, rows, terms, columns, {rows * terms, terms, 1}, {terms * columns, 1, columns}};
    if (add_by_unit(a, b, c, out, sizes, options, scales)) return;
    const Rounders rounders = make_rounders(options, terms, true, std::is_same_v<Real, float>);
    if constexpr (std::is_same_v<Real, float>) {
        if (!out.empty() && terms > 0 && register_matmul(a, b, batches, rows, terms, out, options))
            return round_results(out, rounders, options.threads);
    }
    sum_tiles(all_rows, columns, terms, out, options, rounders, true,
              [&](std::size_t row, std::size_t k, std::size_t column, std::size_t count, double* x,
                  double* y) {
                  std::fill_n(x, count, static_cast<double>(a[row * terms + k]));
                  std::copy_n(b.data() + (row / rows * terms + k) * columns + column, count, y);
              });
}

#define APSCOPE_REAL(Real)                                                                     \
    template void ordered_sum(std::span<const Real>, std::size_t, std::span<Real>,             \
                              const SumOptions&);                                              \
    template void ordered_dot(std::span<const Real>, std::span<const Real>, std::size_t,       \
                              std::span<Real>, const SumOptions&, std::span<const Real>);      \
    template void ordered_matmul(std::span<const Real>, std::span<const Real>, std::size_t,    \
                                 std::size_t, std::size_t, std::span<Real>, const SumOptions&, \
                                 std::span<const Real>, const UnitScales<Real>&);
APSCOPE_REAL(float)
APSCOPE_REAL(double)
#undef APSCOPE_REAL

}  // namespace apscope::detail
