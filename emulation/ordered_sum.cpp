#include "emulation/ordered_sum.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/exact_accumulator.h"
#include "emulation/parallel.h"
#include "emulation/reduce_kernels.h"

namespace apscope {

namespace {

// Outputs summed at a time: their rows stay in cache.
constexpr std::size_t tile = 256;
using Row = std::vector<double>;

struct Rounders {
    Rounder sum;
    std::optional<Rounder> product, result;
};

// One tile of outputs: first .. first + count - 1 of the flat result.
class TileSum {
public:
    // term(k, row) writes the exact terms k of the tile's outputs.
    using Terms = std::function<void(std::size_t, double*)>;

    TileSum(const SumOptions& options, const Rounders& rounders, const Terms& exact_term, std::size_t first, std::size_t count)
        : options_(options), rounders_(rounders), exact_term_(exact_term), first_(first), count_(count), term_(count), scratch_(count) {}

    Row run(std::size_t terms) {
        Row sum(count_, 0.0);
        using Kind = SumOrder::Kind;
        if (options_.order.kind == Kind::exact) {
            exact(terms, sum);
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
        if (rounders_.result) rounders_.result->round(sum.data(), count_, stream(Stage::quantize, 0), first_);
        return sum;
    }

private:
    RandomStream stream(Stage stage, std::size_t hop) const {
        return {seed_key(options_.seed), 0, stage_and_hop(stage, static_cast<std::uint32_t>(hop)), options_.projection.random_bits};
    }
    void term(std::size_t k, Row& row) {
        exact_term_(k, row.data());
        if (rounders_.product) rounders_.product->round(row.data(), count_, stream(Stage::wire, k), first_);
    }
    void round(Row& row) { rounders_.sum.round(row.data(), count_, stream(Stage::reduce, hop_++), first_); }
    // out = round(a + b) or round(a - b)
    void add(const Row& a, const Row& b, Row& out, Operation operation = Operation::add) {
        rounders_.sum.apply(operation, a.data(), b.data(), b.data(), out.data(), count_, stream(Stage::reduce, hop_++), first_);
    }

    void sequential(std::size_t begin, std::size_t end, Row& sum) {
        term(begin, sum);
        round(sum);
        for (std::size_t k = begin + 1; k < end; ++k) {
            term(k, term_);
            add(sum, term_, sum);
        }
    }

    void chunked(std::size_t terms, Row& sum) {
        for (std::size_t begin = 0; begin < terms; begin += options_.order.chunk) {
            const std::size_t end = std::min(terms, begin + options_.order.chunk);
            if (begin == 0) {
                sequential(begin, end, sum);
            } else {
                sequential(begin, end, scratch_);
                add(sum, scratch_, sum);
            }
        }
    }

    // A stack of sums of 2^level terms, merged like the digits of a binary counter.
    void pairwise(std::size_t terms, Row& sum) {
        std::vector<Row> stack;
        const auto merge = [&] {
            Row last = std::move(stack.back());
            stack.pop_back();
            add(stack.back(), last, stack.back());
        };
        for (std::size_t k = 0; k < terms; ++k) {
            stack.emplace_back(count_);
            term(k, stack.back());
            for (std::size_t done = k + 1; done % 2 == 0; done /= 2) merge();
        }
        while (stack.size() > 1) merge();
        sum = stack.front();
        if (terms == 1) round(sum);
    }

    void kahan(std::size_t terms, Row& sum) {
        term(0, sum);
        round(sum);
        Row compensation(count_, 0.0), next(count_);
        for (std::size_t k = 1; k < terms; ++k) {
            term(k, term_);
            add(term_, compensation, term_, Operation::subtract);
            add(sum, term_, next);
            add(next, sum, compensation, Operation::subtract);
            add(compensation, term_, compensation, Operation::subtract);
            sum.swap(next);
        }
    }

    void exact(std::size_t terms, Row& sum) {
        std::vector<ExactAccumulator> accumulators(count_);
        for (std::size_t k = 0; k < terms; ++k) {
            term(k, term_);
            for (std::size_t i = 0; i < count_; ++i) accumulators[i].add(term_[i]);
        }
        const Rounder& rounder = rounders_.sum;
        RandomWords words(stream(Stage::reduce, 0));
        for (std::size_t i = 0; i < count_; ++i) {
            ExactAccumulator& a = accumulators[i];
            const WideSum total = a.total();
            const bool zero = total.significand == 0;
            if (rounder.wide && a.finite() && !zero) {
                sum[i] = wide_to_format<RoundingMode::stochastic>(total, rounder.cast, words.at(first_ + i));
                continue;
            }
            sum[i] = !a.finite() ? a.special() : zero ? a.zero(rounder.mode == RoundingMode::toward_negative) : wide_to_odd(total);
            const std::uint64_t random = is_stochastic(rounder.mode) ? words.at(first_ + i) : 0;
            sum[i] = round_one<double>(sum[i], rounder.cast, rounder.mode, random);
        }
    }

    const SumOptions& options_;
    const Rounders& rounders_;
    const Terms& exact_term_;
    std::size_t first_, count_;
    Row term_, scratch_;
    std::size_t hop_ = 0;
};

Rounders make_rounders(const SumOptions& options, std::size_t terms) {
    if (options.order.kind == SumOrder::Kind::exact && options.accumulate) {
        throw std::invalid_argument("order=exact has no partial sums to round; leave out accumulate, which is " +
                                    options.accumulate->name());
    }
    if (is_stochastic(options.projection.rounding) && terms >= std::size_t{1} << 26) {
        throw std::invalid_argument("a sum of " + std::to_string(terms) +
                                    " terms has more stochastic roundings than random streams; use fewer than 2^26 terms");
    }
    Rounders r{make_rounder(options.accumulate.value_or(options.format), options.projection), {}, {}};
    if (options.product) r.product = make_rounder(*options.product, options.projection);
    if (options.accumulate && *options.accumulate != options.format) r.result = make_rounder(options.format, options.projection);
    return r;
}

// Every row of `columns` outputs, in tiles; term(row, k, column, count, out) writes exact terms.
template <class Term>
void sum_tiles(std::size_t rows, std::size_t columns, std::size_t terms, std::span<float> out, const SumOptions& options,
               const Term& term) {
    const Rounders rounders = make_rounders(options, terms);
    const std::size_t tiles = (columns + tile - 1) / tile;
    parallel_for(rows * tiles, options.threads, [&](std::size_t item) {
        const std::size_t row = item / tiles, column = item % tiles * tile, count = std::min(tile, columns - column);
        const TileSum::Terms terms_of_tile = [&](std::size_t k, double* values) { term(row, k, column, count, values); };
        const std::size_t first = row * columns + column;
        const Row sum = TileSum(options, rounders, terms_of_tile, first, count).run(terms);
        std::transform(sum.begin(), sum.end(), out.data() + first, [](double x) { return static_cast<float>(x); });
    });
}

void check_size(std::span<const float> operand, std::size_t wanted, const char* what) {
    if (operand.size() != wanted) {
        throw std::invalid_argument("operand " + std::string(what) + " holds " + std::to_string(operand.size()) + " elements, not " +
                                    std::to_string(wanted));
    }
}

}  // namespace

SumOrder parse_sum_order(std::string_view text) {
    using Kind = SumOrder::Kind;
    if (text == "sequential") return {Kind::sequential, 0};
    if (text == "pairwise") return {Kind::pairwise, 0};
    if (text == "kahan") return {Kind::kahan, 0};
    if (text == "exact") return {Kind::exact, 0};
    constexpr std::string_view prefix = "chunked:";
    if (text.starts_with(prefix)) {
        std::size_t chunk = 0;
        const char* last = text.data() + text.size();
        const auto [end, error] = std::from_chars(text.data() + prefix.size(), last, chunk);
        if (error == std::errc{} && end == last && chunk > 0) return {Kind::chunked, chunk};
    }
    throw std::invalid_argument("unknown order '" + std::string(text) +
                                "'; use sequential, pairwise, chunked:N with N at least 1, kahan or exact");
}

void ordered_sum(std::span<const float> x, std::size_t terms, std::span<float> out, const SumOptions& options) {
    const std::size_t n = out.size();
    check_size(x, terms * n, "x");
    sum_tiles(1, n, terms, out, options, [&](std::size_t, std::size_t k, std::size_t column, std::size_t count, double* values) {
        std::copy_n(x.data() + k * n + column, count, values);
    });
}

void ordered_dot(std::span<const float> a, std::span<const float> b, std::size_t terms, std::span<float> out,
                 const SumOptions& options) {
    const std::size_t n = out.size();
    check_size(a, terms * n, "a");
    check_size(b, terms * n, "b");
    sum_tiles(1, n, terms, out, options, [&](std::size_t, std::size_t k, std::size_t column, std::size_t count, double* values) {
        const float* x = a.data() + k * n + column;
        const float* y = b.data() + k * n + column;
        for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<double>(x[i]) * y[i];
    });
}

void ordered_matmul(std::span<const float> a, std::span<const float> b, std::size_t rows, std::size_t terms, std::span<float> out,
                    const SumOptions& options) {
    const std::size_t columns = rows == 0 ? 0 : out.size() / rows;
    check_size(a, rows * terms, "a");
    if (rows != 0) check_size(b, terms * columns, "b");
    sum_tiles(rows, columns, terms, out, options, [&](std::size_t row, std::size_t k, std::size_t column, std::size_t count, double* values) {
        const double x = a[row * terms + k];
        const float* y = b.data() + k * columns + column;
        for (std::size_t i = 0; i < count; ++i) values[i] = x * y[i];
    });
}

}  // namespace apscope
