#include "emulation/schemes/lookahead.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>

#include "core/fixed_shape_sum.h"
#include "core/rounding.h"
#include "emulation/allreduce/batch_noise.h"
#include "emulation/machine/parallel.h"
#include "emulation/machine/row_kernels.h"
#include "emulation/machine/simd.h"
#include "emulation/schemes/float_exchange.h"
#include "emulation/schemes/rounding_bound.h"

namespace apscope::detail {

namespace {

constexpr std::size_t chunk = 64 * sum_block;  // elements per task of a thread

// The tensors of a step, divided into pieces of at most `chunk` elements.
struct Pieces {
    struct Piece {
        std::size_t item, first, end;
    };
    std::vector<GradientRows> items;
    std::vector<Piece> list;
    std::size_t operations = 0;  // at least this many operations for an average piece

    Pieces(const SumsAhead::Read& read, std::size_t step, std::span<const std::size_t> tensors) {
        for (const std::size_t tensor : tensors) {
            items.push_back(read(step, tensor));
            const std::size_t elements = items.back().rows[0].size();
            operations += elements * items.back().rows.size();
            for (std::size_t first = 0; first < elements; first += chunk)
                list.push_back({items.size() - 1, first, std::min(first + chunk, elements)});
        }
        if (!list.empty()) operations /= list.size();
    }
};

// Computes the sums of a piece under one decision, block by block.
class PieceSums {
public:
    PieceSums(const GradientRows& item, const FloatEncoder& encoder, const Decision& decision,
              const Topology& topology)
        : item_(item), topology_(topology),
          exact_(topology.kind == Topology::Kind::exact || encoder.reduction.exact),
          exchange_(encoder, decision, static_cast<int>(item.rows.size()), !exact_,
                    buffers_of(item.rows.size())) {}

    void add_up(std::size_t first, std::span<double> y) {
        for (std::size_t w = 0; w < item_.rows.size(); ++w)
            exchange_.encode(w, item_.rows[w].subspan(first, y.size()), first, item_.key);
        exchange_.reduce(topology_, exact_, first, item_.rows[0].size(), item_.key, 1.0, y);
    }

private:
    static FloatBuffers& buffers_of(std::size_t workers) {
        thread_local std::optional<FloatBuffers> buffers;
        if (!buffers || buffers->narrow.size() != workers)
            buffers.emplace(static_cast<int>(workers));
        return *buffers;
    }

    const GradientRows& item_;
    const Topology& topology_;
    bool exact_;
    FloatExchange exchange_;
};

bool are_finite(const GradientRows& item, const Pieces::Piece& piece, const FloatEncoder& encoder,
                const Decision& decision, const Topology& topology) {
    PieceSums sums(item, encoder, decision, topology);
    double y[sum_block];
    for (std::size_t first = piece.first; first < piece.end; first += sum_block) {
        const std::size_t n = std::min(sum_block, piece.end - first);
        sums.add_up(first, std::span(y, n));
        if (!std::all_of(y, y + n, [](double sum) { return std::isfinite(sum); })) return false;
    }
    return true;
}

double rounded_up(double x, const FloatFormat& format) {
    return round_one(
        x, make_cast<double>(format, {RoundingMode::toward_positive, Overflow::saturate}));
}

// An upper bound of a sum, with rounded partial sums, of `workers` numbers that are at most `code`.
double largest_sum(double code, int workers, const Additions& by, bool kahan) {
    const double largest = by.last().format.largest();
    if (kahan) return largest;  // the bound below ignores the compensation
    return std::min(largest, RoundingBound(by).summed(workers * code, workers));
}

// An upper bound of the results if the scale is 1: every message has the largest code, and every
// rounding is upward.
double largest_result(const FloatEncoder& encoder, int workers, const Topology& topology) {
    const Reduction& r = encoder.reduction;
    const Divisors by = encoder.grid.division.of(workers);
    const double w = workers;
    double code = encoder.grid.format.largest();
    if (by.before != 1.0) code = rounded_up(code / by.before, encoder.grid.format);
    if (r.exact || r.gathers() || topology.kind == Topology::Kind::exact)
        return w * code * by.before;
    double sum = code;
    if (r.rounds(topology, workers))
        sum = largest_sum(code, workers, r.additions(topology), topology.kahan);
    if (by.after != 1.0) sum = rounded_up(sum / by.after, r.accumulate);
    return by.any() ? w * sum : sum;
}

// Finds the number nearest to an exact sum that can be a result if the scale is the decision's or a
// larger power of two. A result is at most largest_result() / scale, and if partial sums are
// rounded to a format, a result has the precision of that format.
class NearestPossible {
public:
    NearestPossible(const FloatEncoder& encoder, const Decision& decision, int workers,
                    const Topology& topology) {
        end_ = largest_result(encoder, workers, topology) / decision.scale;
        end_ *= 1.0 + 0x1p-40;  // a margin for the rounding errors of the bound
        const bool divides = encoder.grid.division.of(workers).any();
        if (encoder.reduction.rounds(topology, workers) && !divides)
            splitter_ =
                std::ldexp(1.0,
                           53 - encoder.reduction.additions(topology).last().format.precision()) +
                1.0;
    }
    double operator()(double sum) const {
        const double inside = std::clamp(sum, -end_, end_);
        if (inside != sum || splitter_ == 0.0) return inside;
        const double t = sum * splitter_, near = t - (t - sum);  // `sum` in the results' precision
        return std::isfinite(near) ? near : sum;
    }

private:
    double end_, splitter_ = 0.0;
};

struct AddErrors {
    static APSCOPE_INLINE void run(const double* reference, const double* result, std::size_t count,
                                   StepErrors* errors) {
        // x - x is 0 for a finite number, otherwise NaN.
        const auto rest = [](double x) __attribute__((always_inline)) { return x - x; };
        const auto are_finite = [&](std::size_t i) __attribute__((always_inline)) {
            return rest(reference[i]) + rest(result[i]) == 0.0;
        };
        errors->squared_error = block_sum(count, [&](std::size_t i) __attribute__((always_inline)) {
            const double error = are_finite(i) ? result[i] - reference[i] : 0.0;
            return error * error;
        });
        errors->squared_reference =
            block_sum(count, [&](std::size_t i) __attribute__((always_inline)) {
                return are_finite(i) ? reference[i] * reference[i] : 0.0;
            });
        std::uint64_t overflow = 0;
        for (std::size_t i = 0; i < count; ++i)
            overflow += rest(reference[i]) == 0.0 && rest(result[i]) != 0.0 ? 1 : 0;
        errors->overflow = overflow;
    }
};

// The errors of a block's results.
StepErrors errors_of(std::span<const double> reference, std::span<const double> result,
                     std::span<const double> noise) {
    StepErrors errors;
    OverNoise over;
    over.add(reference, result, noise);
    errors.log2_over_noise = over.sum_log2;
    errors.noise_blocks = over.blocks;
    simd::run<AddErrors>(reference.data(), result.data(), result.size(), &errors);
    return errors;
}

std::vector<ErrorsAhead> piece_errors(const GradientRows& item, const Pieces::Piece& piece,
                                      const FloatEncoder& encoder,
                                      std::span<const Decision> decisions,
                                      const Topology& topology) {
    std::vector<std::span<const float>> rows;
    for (const std::span<const float> row : item.rows)
        rows.push_back(row.subspan(piece.first, piece.end - piece.first));
    const BatchNoise noise = batch_noise(rows, false);
    std::vector<ErrorsAhead> errors(decisions.size());
    std::vector<double> references(piece.end - piece.first, -0.0);  // -0 + x is x
    for (const std::span<const float> row : rows)
        simd::run<AddWidened>(references.data(), row.data(), row.size());
    double y[sum_block];
    for (std::size_t d = 0; d < decisions.size(); ++d) {
        PieceSums sums(item, encoder, decisions[d], topology);
        const NearestPossible nearest(encoder, decisions[d], static_cast<int>(rows.size()),
                                      topology);
        for (std::size_t first = 0; first < references.size(); first += sum_block) {
            const std::size_t n = std::min(sum_block, references.size() - first);
            const auto reference = std::span<const double>(references).subspan(first, n);
            const std::span<const double> block_noise = noise_of(&noise, first, n);
            sums.add_up(piece.first + first, std::span(y, n));
            errors[d].errors.merge(errors_of(reference, std::span(y, n), block_noise));
            if (d + 1 < decisions.size()) continue;
            std::transform(reference.begin(), reference.end(), y, nearest);
            errors[d].least.merge(errors_of(reference, std::span(y, n), block_noise));
        }
    }
    return errors;
}

}  // namespace

bool SumsAhead::sums_are_finite(std::size_t step, std::span<const std::size_t> tensors,
                                const FloatEncoder& encoder, const Decision& decision) const {
    const Pieces pieces(read_, step, tensors);
    std::atomic<bool> finite{true};
    const auto check_piece = [&](std::size_t i) {
        if (!finite.load(std::memory_order_relaxed)) return;
        const Pieces::Piece& piece = pieces.list[i];
        if (!are_finite(pieces.items[piece.item], piece, encoder, decision, topology_))
            finite.store(false, std::memory_order_relaxed);
    };
    parallel_pieces(pieces.list.size(), threads_, check_piece, pieces.operations);
    return finite;
}

std::vector<ErrorsAhead> SumsAhead::errors(std::size_t step, std::span<const std::size_t> tensors,
                                           const FloatEncoder& encoder,
                                           std::span<const Decision> decisions) const {
    const Pieces pieces(read_, step, tensors);
    std::vector<std::vector<ErrorsAhead>> of_piece(pieces.list.size());
    const auto sum_piece = [&](std::size_t i) {
        const Pieces::Piece& piece = pieces.list[i];
        of_piece[i] = piece_errors(pieces.items[piece.item], piece, encoder, decisions, topology_);
    };
    parallel_pieces(pieces.list.size(), threads_, sum_piece, pieces.operations);
    std::vector<ErrorsAhead> errors(decisions.size());
    for (const std::vector<ErrorsAhead>& piece : of_piece) {
        for (std::size_t d = 0; d < errors.size(); ++d) {
            errors[d].errors.merge(piece[d].errors);
            errors[d].least.merge(piece[d].least);
        }
    }
    return errors;
}

}  // namespace apscope::detail
