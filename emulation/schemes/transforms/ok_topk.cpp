// ok_topk: the largest elements of a sum of the workers' largest elements, chosen by thresholds
// that are exact only in some steps.
//
//      x_w = fl32(g_w + r_w)         r_w: what worker w has not got into a result so far
//      S_w = {i: |x_w,i| > t_w}      the elements that worker w sends
//      s_i = sum of x_w,i            over the workers w that send i, in fp32
//      R   = {i: |s_i| > T}          the elements of the result: y = s on R, else 0
//      r_w = x_w                     0 on S_w and R together
//
// k = max(1, floor(keep n)). In steps whose number is a multiple of threshold_period, and in the
// first sparse one, t_w is the k-th largest |x_w|, R has the k largest |s| (of equal sums, the
// first), and T is the least of them. In the others thresholds, fp32 numbers, follow the counts:
//
//      before a step   t_w 1.03      while |S_w| > 4k/3, at most 5 times
//      after a step    t_w / 1.012   if |S_w| < 2k/3;   t_w 1.012 if |S_w| > 5k/4 (exact t_w, too)
//                      T / 1.008     if |R| < 2k/3;     T 1.008   if |R| > 4k/3
//
// The tensor has one region per worker. Every region_period steps each worker divides S_w into W
// equal parts; a region begins at the mean, rounded down, of the parts' first indices. Worker w
// adds region w: its own elements, then those of workers w - 1, w - 2, ... (mod W). The sums that
// may be in the result are gathered: those on R, or all that are not 0 where T is exact.
//
// In the first `warmup` steps gradients are added in fp32, in rank order, and nothing is kept back.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>

#include "core/bits.h"
#include "core/parse.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/codecs/sparse.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

using Starts = std::vector<std::size_t>;  // the first elements of regions 1, ..., W - 1

struct Memory {
    Rows residual;        // r_w, fp32 numbers
    Row local;            // t_w
    float global = 0.0f;  // T
    Starts starts;
    long steps = 0;

    void fields(Fields& f) {
        f.rows("residual", residual);
        f.row("local_threshold", local);
        f.numbers("global_threshold", global);
        f.row("starts", starts);
        f.numbers("steps", steps);
    }
};

// What the workers compute in a step.
struct Found {
    bool warm = false;             // warm-up: every element is sent, without its index
    Row thresholds;                // t_w of this step; -1 in the warm-up
    Row gathered;                  // the gathered sums, 0 at all other elements
    Cutoff last;                   // separates the result from the other gathered sums
    std::uint64_t start_bits = 0;  // bits of the first elements of new regions

    void fields(Fields& f) {
        f.numbers("warm", warm);
        f.row("thresholds", thresholds);
        f.row("gathered", gathered);
        f.numbers("last", last.size, last.index);
        f.numbers("start_bits", start_bits);
    }
};

using Inputs = std::vector<std::span<const double>>;  // x_w

float kth_largest(std::span<const double> x, std::size_t k) {
    if (k == 0) return 0.0f;
    Row magnitudes(x.size());
    std::ranges::transform(x, magnitudes.begin(), [](double v) { return std::abs(v); });
    const auto kth = magnitudes.begin() + static_cast<std::ptrdiff_t>(k - 1);
    std::nth_element(magnitudes.begin(), kth, magnitudes.end(), std::greater<>());
    return static_cast<float>(*kth);
}

double count_above(std::span<const double> x, float threshold) {
    return static_cast<double>(
        std::ranges::count_if(x, [=](double v) { return std::abs(v) > threshold; }));
}

// The threshold of the next step, if `count` elements were chosen where about k should be.
float followed(float threshold, double count, double k, double most, float factor) {
    if (count < 2.0 * k / 3.0) return threshold / factor;
    return count > most ? threshold * factor : threshold;
}

Starts equal_starts(const Inputs& x, const Row& thresholds) {
    const std::size_t workers = x.size(), n = x[0].size();
    Starts starts(workers - 1, 0);
    Starts sent;
    for (std::size_t w = 0; w < workers; ++w) {
        sent.clear();
        for (std::size_t i = 0; i < n; ++i)
            if (std::abs(x[w][i]) > thresholds[w]) sent.push_back(i);
        // A worker that sends nothing divides the tensor.
        for (std::size_t r = 1; r < workers; ++r)
            starts[r - 1] += sent.empty() ? r * n / workers : sent[r * sent.size() / workers];
    }
    for (std::size_t& start : starts) start /= workers;
    return starts;
}

// Adds, in fp32, the elements whose magnitude is above the threshold.
void add_above(std::span<const double> x, double threshold, std::span<double> sums) {
    for (std::size_t i = 0; i < sums.size(); ++i)
        if (std::abs(x[i]) > threshold)
            sums[i] = static_cast<float>(sums[i]) + static_cast<float>(x[i]);
}

// The sums of the elements above the thresholds. Region r is added by worker r.
Row sums_of_regions(const Inputs& x, const Row& thresholds, const Starts& starts) {
    const std::size_t workers = x.size();
    Row sums(x[0].size(), 0.0);
    for (std::size_t r = 0; r < workers; ++r) {
        const std::size_t begin = r == 0 ? 0 : starts[r - 1],
                          end = r + 1 == workers ? sums.size() : starts[r];
        for (std::size_t round = 0; round < workers; ++round) {
            const std::size_t w = (r + workers - round) % workers;
            add_above(x[w].subspan(begin), thresholds[w],
                      std::span(sums).subspan(begin, end - begin));
        }
    }
    return sums;
}

// Makes the rows that a memory does not have yet. A caller's function may have changed the memory
// since the last call. Throws std::invalid_argument if it does not fit the tensor.
void complete(Memory& memory, std::size_t workers, std::size_t size) {
    memory.residual.resize(workers, Row(size, 0.0));
    for (const Row& row : memory.residual) check_length(row.size(), size);
    memory.local.resize(workers, 0.0);
    memory.starts.resize(workers - 1, size);
    if (!std::ranges::is_sorted(memory.starts) ||
        std::ranges::any_of(memory.starts, [=](std::size_t start) { return start > size; }))
        throw std::invalid_argument("the state's 'starts' must ascend and be at most " +
                                    std::to_string(size) + ", the tensor's length");
}

// The least magnitude that is chosen and is not 0; 0 if there is none.
float least_of(const Row& sums, const Cutoff& last) {
    double least = 0.0;
    for (std::size_t i = 0; i < sums.size(); ++i) {
        const double size = std::abs(sums[i]);
        if (size != 0.0 && last.keeps(size, i) && (least == 0.0 || size < least)) least = size;
    }
    // T is finite also where a sum is not, because it could not fall from infinity.
    return std::min(static_cast<float>(least), std::numeric_limits<float>::max());
}

struct OkTopk {
    double keep;
    long warmup, threshold_period, region_period;

    bool is_warm(const State& state) const { return state.of<Memory>().steps < warmup; }

    static Found dense(const Inputs& x) {
        Found found;
        found.warm = true;
        found.thresholds.assign(x.size(), -1.0);
        found.gathered.assign(x[0].size(), 0.0);
        for (const std::span<const double> row : x) add_above(row, -1.0, found.gathered);
        return found;
    }
    Found sparse(const Inputs& x, Memory& memory) const {
        const std::size_t n = x[0].size(), kept = kept_of(n, keep);
        complete(memory, x.size(), n);
        const auto k = static_cast<double>(kept);
        const auto is_due = [&](long period) {
            return memory.steps % period == 0 || memory.steps == warmup;
        };
        const bool is_exact = is_due(threshold_period);
        Found found;
        for (std::size_t w = 0; w < x.size(); ++w) {
            float threshold =
                is_exact ? kth_largest(x[w], kept) : static_cast<float>(memory.local[w]);
            double count = count_above(x[w], threshold);
            for (int raised = 0; !is_exact && count > 4.0 * k / 3.0 && raised < 5; ++raised) {
                threshold *= 1.03f;
                count = count_above(x[w], threshold);
            }
            found.thresholds.push_back(threshold);
            memory.local[w] = followed(threshold, count, k, 5.0 * k / 4.0, 1.012f);
        }
        if (is_due(region_period)) {
            memory.starts = equal_starts(x, found.thresholds);
            found.start_bits =
                memory.starts.size() * static_cast<std::uint64_t>(place_bits(n, false));
        }
        Row& sums = found.gathered = sums_of_regions(x, found.thresholds, memory.starts);
        if (is_exact) {
            found.last = cutoff_of(n, kept, [&](auto&& f) {
                for (std::size_t i = 0; i < n; ++i) f(i, std::abs(sums[i]));
            });
            memory.global = least_of(sums, found.last);
        } else {
            double count = 0.0;
            for (double& sum : sums) {
                if (std::abs(sum) > memory.global) ++count;
                else sum = 0.0;
            }
            memory.global = followed(memory.global, count, k, 4.0 * k / 3.0, 1.008f);
        }
        return found;
    }
    // Computes thresholds, sums and the result, because select() gets the rows of all workers, and
    // a message has the gathered sums as well.
    Parameters select(const Selection& s) const {
        Inputs x;
        for (const RowReader& row : s.rows) x.push_back(row.read(0, row.size));
        Parameters theta;
        theta.extra.of<Found>() = is_warm(s.state) ? dense(x) : sparse(x, s.state.of<Memory>());
        return theta;
    }
};

void add_residual(const State& state, const Place& place, std::span<double> x, std::size_t w) {
    constexpr double limit = std::numeric_limits<float>::max();
    const Rows& residual = state.of<Memory>().residual;
    if (w >= residual.size()) return check_length(0, place.size);
    const std::span<const double> r = piece_of(residual[w], place, x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<float>(std::clamp(x[i] + r[i], -limit, limit));
}

// The message: the elements above the threshold, then the gathered sums; each is its index and an
// fp32 number.
void encode(const RowPiece& p, Message& m) {
    const Found& found = p.theta.of<Found>();
    const double threshold = found.thresholds.at(p.worker);
    const int width = found.warm ? 0 : place_bits(p.x.size(), false);
    m.prepare(p.x.size(), false, false);
    BitWriter bits(p.packs());
    const auto put = [&](std::size_t i, double value) {
        bits.put(i, width);
        bits.put(bits_cast<std::uint32_t>(static_cast<float>(value)), 32);
    };
    for (std::size_t i = 0; i < p.x.size(); ++i) {
        const bool sends = std::abs(p.x[i]) > threshold;
        m.values[i] = sends ? p.x[i] : 0.0;
        if (sends) put(i, p.x[i]);
    }
    for (std::size_t i = 0; i < p.x.size(); ++i)
        if (found.warm || found.gathered[i] != 0.0) put(i, found.gathered[i]);
    m.payload_bits = bits.bits();
    if (p.packs()) m.payload = bits.take();
    m.side_bits = m.tensor_bits = found.start_bits;
}

void reduce(const SentPieces& s, Row& sum) {
    const Found& found = s.theta.of<Found>();
    sum = found.gathered;
    for (std::size_t i = 0; i < sum.size(); ++i)
        if (!found.last.keeps(std::abs(sum[i]), i)) sum[i] = 0.0;
}

void keep_residual(State& state, const Exchange& e) {
    complete(state.of<Memory>(), e.sent.size(), e.reduced[0].size());
    Rows& residual = state.of<Memory>().residual;
    for (std::size_t w = 0; w < residual.size(); ++w) {
        const Row &x = e.intended[w], &sent = e.sent[w].values;
        for (std::size_t i = 0; i < x.size(); ++i)
            residual[w][i] = sent[i] != 0.0 && e.reduced[0][i] != 0.0 ? 0.0 : x[i];
    }
}

SchemeParts parts_of(const SchemeArguments& arguments) {
    const OkTopk how{arguments.number("keep", 1e-9, 1.0),
                     arguments.integer("warmup", 0, largest_count),
                     arguments.integer("threshold_period", 1, largest_count),
                     arguments.integer("region_period", 1, largest_count)};
    return {
        .grid = "sparse:fp32",
        .topology = std::string(reductions::two_phase),
        // The payload has the bytes of both phases.
        .transport = {.rounds = 2,
                      .agreed_bits = all_side_bits,
                      .phased = true,
                      .phase2_width = 0.0},
        .run = whole_row,
        .choice = {.select = [how](const Selection& s) { return how.select(s); }},
        .memory = {.begin = [](State& state, std::size_t workers,
                               std::size_t size) { complete(state.of<Memory>(), workers, size); },
                   .compensate = add_residual,
                   .update =
                       [how](const TrainingStep&, State& state, const Place&, const Exchange& e) {
                           if (!how.is_warm(state)) keep_residual(state, e);
                       },
                   .end = [](const TrainingStep&, State& state) { ++state.of<Memory>().steps; },
                   .feeds_errors_back = true},
        .encoding = {.encode = encode, .reduce = reduce, .mixes_elements = true}};
}

}  // namespace

SchemeDefinition ok_topk_definition() {
    return {.class_name = "OkTopk",
            .summary = "the largest sums of the workers' largest elements, added region by region; "
                       "thresholds that are exact only in some steps",
            .source = "Li and Hoefler, Near-Optimal Sparse Allreduce for Distributed Deep "
                      "Learning, PPoPP 2022 (arXiv:2201.07598)",
            .needs = "gradients of consecutive steps",
            .keys = {{"keep", "0.01", "share of the elements that a result has, about"},
                     {"warmup", "512", "steps at first whose gradients are sent complete"},
                     {"threshold_period", "32", "steps from one exact threshold to the next"},
                     {"region_period", "64", "steps after which regions are divided anew"}},
            .build = parts_of};
}

}  // namespace apscope::detail
