// dynamiq: groups of 16 elements with 2, 4 or 8 bits, decoded, added and encoded anew at every hop
// of a ring or a butterfly.
//
//      x_w  = fl32(g_w / W)              with zeros behind, in super-groups of 16 groups
//      mu_w = bf16(sum of x_w / 256)     F_w = bf16(sum of x_w^2), of a super-group, in fp32
//      mu   = sum of mu_w                F = sum of F_w: in rank order, every sum rounded to bf16
//      b    = 8, 4 or 2 bits             chosen by F, the same for all workers
//      v_w  = bf16(fl32(x_w - mu_w))     what worker w adds
//      s    = bf16(fl32(message + v_w))  of every message that arrives; s = v_w without one
//      y    = W fl32(message of the last s + mu)
//
// Every worker encodes every element once. In the ring, worker c encodes the sum of chunk c for
// all; v_{c+1} is sent first. In the butterfly, the workers of the largest distance add first.
//
// codecs/super_group.h has the messages. With rules=paper, the mean over all workers, fl32(mu / W),
// is subtracted, and r is not rounded to bf16, as it is with rules=code, where it comes from a
// table.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "emulation/allreduce/topology.h"
#include "emulation/draws/random_words.h"
#include "emulation/schemes/codecs/super_group.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

using namespace super_group;

constexpr int word_bits = 24;  // of r, which is then an fp32 number
enum Words : std::uint32_t { for_elements, for_scales };

enum class Widths { shares, dynamic, four };

// The second half is added to the first until one number is left.
double tree_sum(Values x) {
    for (std::size_t half = super / 2; half > 0; half /= 2)
        for (std::size_t i = 0; i < half; ++i) x[i] = added(x[i], x[i + half]);
    return x[0];
}

// u of widths=dynamic.
struct Memory {
    double u = 60.0;
    bool started = false;

    void fields(Fields& f) {
        f.numbers("u", u);
        f.numbers("started", started);
    }
};

// The widths z = 2, 4 or 8 of super-groups by their energy F:
//
//      z = 2^k, k = floor(log2(c log2(max(F, 1e-20)) + u)), 1 to 3
//
// After a step, u moves such that the mean width comes closer to the budget minus 0.625.
struct Level {
    double budget, factor;

    Row widths(const Row& energy, double u) const {
        constexpr double least = 1e-20;
        Row widths;
        for (const double f : energy) {
            const double inner = factor * std::log2(std::max(least, f)) + u;
            const double k = std::floor(std::log2(std::max(least, inner)));
            widths.push_back(std::exp2(std::clamp(k, 1.0, 3.0)));
        }
        return widths;
    }
    // By how much the mean width is too small.
    double missing(const Row& energy, double u) const {
        const Row found = widths(energy, u);
        const double sum = std::accumulate(found.begin(), found.end(), 0.0);
        return budget - 0.625 - sum / static_cast<double>(found.size());
    }
    void update(const Row& energy, Memory& memory) const {
        if (!memory.started) {
            memory.u = bisected(energy);
            memory.started = true;
            return;
        }
        const double before = missing(energy, memory.u);
        double move = before;
        while (std::abs(move) > 0.1 && before * missing(energy, memory.u + move) < 0.0) move /= 2.0;
        memory.u += move;
    }
    double bisected(const Row& energy) const {
        double low = -10.0, high = 60.0, middle = (low + high) / 2.0;
        for (int i = 0; i < 32; ++i) {
            middle = (low + high) / 2.0;
            const double found = missing(energy, middle);
            if (std::abs(found) <= 0.1) break;
            (found > 0.0 ? low : high) = middle;
        }
        return middle;
    }
};

// The super-groups with the largest energies have 8 bits, those with the smallest 2, the rest 4.
Row widths_by_shares(const Row& energy, long budget) {
    struct Shares {
        double eight, two;
    };
    static constexpr std::array<Shares, 5> of_budget{
        {{1.0 / 40.0, 26.0 / 40.0}, {0.05, 0.35}, {0.35, 0.2}, {0.55, 0.1}, {0.75, 0.03}}};
    const Shares shares = of_budget[static_cast<std::size_t>(budget - 3)];
    std::vector<std::size_t> order(energy.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order,
                             [&](std::size_t a, std::size_t b) { return energy[a] > energy[b]; });
    const auto count = [&](double share) {
        return static_cast<std::ptrdiff_t>(static_cast<double>(order.size()) * share);
    };
    Row widths(order.size(), 4.0);
    std::for_each_n(order.begin(), count(shares.eight), [&](std::size_t i) { widths[i] = 8.0; });
    std::for_each(order.end() - count(shares.two), order.end(),
                  [&](std::size_t i) { widths[i] = 2.0; });
    return widths;
}

// What the workers compute in a step.
struct Exchanged {
    Row widths;
    Rows added;     // what each worker adds to the sum
    Rows payloads;  // the bytes of their messages, if they are packed
    Row sum;

    void fields(Fields& f) {
        f.row("widths", widths);
        f.rows("added", added);
        f.rows("payloads", payloads);
        f.row("sum", sum);
    }
};

std::size_t super_groups(std::size_t n) { return (n + super - 1) / super; }

// The rows of all workers in super-groups, and their statistics.
class Input {
public:
    Input(std::span<const RowReader> rows, const BF16& bf16, bool by_paper) {
        for (const RowReader& row : rows) rows_.push_back(row.read(0, row.size));
        const std::size_t count = super_groups(size());
        parts_.assign(workers(), Row(count));
        mean.resize(count);
        energy.resize(count);
        for (std::size_t s = 0; s < count; ++s) {
            for (std::size_t w = 0; w < workers(); ++w) {
                Values x = values(w, s);
                const double own = bf16(divided(tree_sum(x), super));
                for (double& v : x) v = multiplied(v, v);
                const double own_energy = bf16(tree_sum(x)), before = w == 0 ? 0.0 : mean[s];
                mean[s] = w == 0 ? own : bf16(added(mean[s], own));
                energy[s] = w == 0 ? own_energy : bf16(added(energy[s], own_energy));
                means_.push_back(own);
                parts_[w][s] = mean[s] - before;
            }
            if (by_paper) take_mean(s);
        }
    }
    std::size_t workers() const { return rows_.size(); }
    std::size_t size() const { return rows_[0].size(); }

    // x_w of super-group s, before and after the mean is subtracted.
    Values values(std::size_t w, std::size_t s) const {
        Values x{};
        const std::size_t first = s * super, count = std::min(super, size() - first);
        for (std::size_t i = 0; i < count; ++i)
            x[i] = divided(rows_[w][first + i], static_cast<double>(workers()));
        return x;
    }
    Values centred(std::size_t w, std::size_t s) const {
        Values x = values(w, s);
        for (double& v : x) v = added(v, -means_[s * workers() + w]);
        return x;
    }
    // What worker w adds to the mean.
    double part_of_mean(std::size_t w, std::size_t s) const { return parts_[w][s]; }

    Row mean, energy;  // of every super-group, mu and F

private:
    void take_mean(std::size_t s) {
        for (std::size_t w = 0; w < workers(); ++w)
            means_[s * workers() + w] = parts_[w][s] =
                divided(mean[s], static_cast<double>(workers()));
    }

    std::vector<std::span<const double>> rows_;
    Row means_;   // what is subtracted: super-group by super-group, of all workers
    Rows parts_;  // part_of_mean()
};

// A message from one worker to another.
struct SentTo {
    std::size_t from, to;
};

struct DynamiQ {
    Codec codec;
    Rules rules;
    Widths widths;
    long budget;
    bool is_correlated, is_butterfly;

    Level level() const {
        const double ratio = 512.0 / 17.0;
        return {static_cast<double>(budget),
                4.0 / (rules == Rules::paper ? std::log2(ratio) : ratio)};
    }
    Row widths_of(const Row& energy, State& state) const {
        if (widths == Widths::four) return Row(energy.size(), 4.0);
        if (widths == Widths::shares) return widths_by_shares(energy, budget);
        Memory& memory = state.of<Memory>();
        Row found = level().widths(energy, memory.u);
        if (!energy.empty()) level().update(energy, memory);
        return found;
    }

    // The messages with sums of the chunk of worker `owner`, in their order.
    std::vector<SentTo> hops(std::size_t owner, std::size_t workers) const {
        std::vector<SentTo> hops;
        if (!is_butterfly) {
            for (std::size_t i = 1; i < workers; ++i)
                hops.push_back({(owner + i) % workers, (owner + i + 1) % workers});
            return hops;
        }
        for (std::size_t distance = workers / 2, done = 0; distance > 0; distance /= 2) {
            done |= distance;
            for (std::size_t w = 0; w < workers; ++w)
                if (((w ^ owner) & done) == 0) hops.push_back({w ^ distance, w});
        }
        return hops;
    }

    // Computes the sum and the messages, because select() gets the rows of all workers.
    Parameters select(const Selection& s) const {
        const std::size_t workers = s.rows.size();
        if (is_butterfly && (workers & (workers - 1)) != 0)
            throw std::invalid_argument("dynamiq:topology=butterfly needs a power of two of "
                                        "workers, and there are " +
                                        std::to_string(workers) + "; use topology=ring");
        const Input input(s.rows, codec.bf16, rules == Rules::paper);
        Parameters theta;
        Exchanged& e = theta.extra.of<Exchanged>();
        e.widths = widths_of(input.energy, s.state);
        e.sum.resize(input.size());
        e.added.assign(workers, Row(input.size()));
        std::vector<BitWriter> wires(workers, BitWriter(s.step.packs));
        static const Topology ring = parse_topology("ring");
        const auto begin = [&](std::size_t chunk) {
            return chunk_begin(ring, static_cast<int>(workers), static_cast<int>(chunk),
                               input.mean.size());
        };
        for (std::size_t owner = 0; owner < workers; ++owner) {
            const std::vector<SentTo> sent = hops(owner, workers);
            for (std::size_t g = begin(owner); g < begin(owner + 1); ++g)
                exchange(s.step, input, g, sent, owner, wires, e);
        }
        for (BitWriter& wire : wires) {
            const std::vector<std::uint8_t> bytes = wire.take();
            if (s.step.packs) e.payloads.emplace_back(bytes.begin(), bytes.end());
        }
        return theta;
    }

    // Adds super-group g.
    void exchange(const TrainingStep& step, const Input& input, std::size_t g,
                  std::span<const SentTo> hops, std::size_t owner, std::vector<BitWriter>& wires,
                  Exchanged& e) const {
        const std::size_t first = g * super, count = std::min(super, input.size() - first);
        const auto own = static_cast<double>(input.workers());
        const int bits = static_cast<int>(e.widths[g]);
        thread_local std::vector<Values> held;
        held.resize(input.workers());
        // A worker adds what it sends, less what it got.
        const auto add = [&](std::size_t w, double sign, const Values& x) {
            for (std::size_t i = 0; i < count; ++i) e.added[w][first + i] += sign * own * x[i];
        };
        const auto send = [&](std::size_t w) {
            Values r;
            std::array<double, groups> r_of_scales{};
            draw(step, w, first, r);
            if (rules == Rules::paper) draw_scales(step, w, g * groups, r_of_scales);
            codec.send(held[w], bits, r, r_of_scales.data(), wires[w]);
            add(w, 1.0, held[w]);
        };
        for (std::size_t w = 0; w < held.size(); ++w) {
            held[w] = input.centred(w, g);
            codec.bf16.round(held[w].data(), 1.0, held[w].data(), super);
            const double part = own * input.part_of_mean(w, g);
            std::fill_n(e.added[w].begin() + static_cast<std::ptrdiff_t>(first), count, part);
        }
        for (const auto& [from, to] : hops) {
            send(from);
            add(to, -1.0, held[from]);
            for (std::size_t i = 0; i < super; ++i) held[to][i] = added(held[from][i], held[to][i]);
            codec.bf16.round(held[to].data(), 1.0, held[to].data(), super);
        }
        send(owner);
        for (std::size_t i = 0; i < count; ++i)
            e.sum[first + i] = own * added(held[owner][i], input.mean[g]);
    }

    // r of the elements from `first` on.
    void draw(const TrainingStep& step, std::size_t w, std::size_t first, Values& r) const {
        RandomStream stream = step.stream(w, word_bits, for_elements);
        stream.strata = is_correlated ? static_cast<std::uint32_t>(step.workers) : 1;
        random_words(stream, first, super, r.data());
        constexpr double unit = 1.0 / (1 << word_bits);
        if (rules == Rules::code) return codec.bf16.round(r.data(), unit, r.data(), super);
        for (double& v : r) v *= unit;
    }
    static void draw_scales(const TrainingStep& step, std::size_t w, std::size_t first,
                            std::array<double, groups>& r) {
        random_words(step.stream(w, word_bits, for_scales), first, groups, r.data());
        for (double& v : r) v /= 1 << word_bits;
    }
};

void encode(const RowPiece& p, Message& m) {
    const Exchanged& e = p.theta.of<Exchanged>();
    m.prepare(p.x.size(), false, false);
    m.values = e.added.at(p.worker);
    m.payload_bits = 0;
    for (const double bits : e.widths)
        m.payload_bits += groups * (group * static_cast<std::uint64_t>(bits) + 8) + 16;
    m.side_bits = 32 * e.widths.size();
    if (!p.packs()) return;
    const Row& bytes = e.payloads.at(p.worker);
    m.payload.assign(bytes.begin(), bytes.end());
}

SchemeParts parts_of(const SchemeArguments& arguments) {
    constexpr std::array<std::string_view, 2> quantizers{"aee", "mee"}, rules{"code", "paper"},
        topologies{"ring", "butterfly"};
    constexpr std::array<std::string_view, 3> widths{"shares", "dynamic", "four"};
    const auto by = arguments.one_of<Rules>("rules", rules);
    const DynamiQ how{Codec(arguments.one_of<Quantizer>("quantizer", quantizers), by),
                      by,
                      arguments.one_of<Widths>("widths", widths),
                      arguments.integer("budget", 3, 7),
                      arguments.flag("correlated"),
                      arguments.choice("topology", topologies) == "butterfly"};
    return {.grid = "groups:16",
            .topology = std::string(how.is_butterfly ? reductions::butterfly : reductions::ring),
            .transport = {.agreed_bits = all_side_bits},
            .run = whole_row,
            .choice = {.select = [how](const Selection& s) { return how.select(s); }},
            .memory = {.keeps = how.widths == Widths::dynamic},
            .encoding = {
                .encode = encode,
                .reduce = [](const SentPieces& s, Row& sum) { sum = s.theta.of<Exchanged>().sum; },
                .draws = true}};
}

}  // namespace

SchemeDefinition dynamiq_definition() {
    return {
        .class_name = "DynamiQ",
        .summary = "groups of 16 with 2, 4 or 8 bits by the energy of 256 elements; a ring or "
                   "a butterfly whose sums are encoded anew at every hop",
        .source = "Han et al., DynamiQ, SIGCOMM 2026 (arXiv:2602.08923), and its authors' code",
        .needs = "gradients",
        .keys = {{"widths", "shares",
                  "bits of a super-group: shares (8 for the largest energies, 2 for the "
                  "smallest), dynamic (by thresholds, which follow the steps) or four"},
                 {"budget", "5", "bits per value, 3 to 7, from which shares or thresholds follow"},
                 {"quantizer", "mee",
                  "levels: mee (distances that grow with the magnitude) or aee (equal ones)"},
                 {"rules", "code",
                  "where the two differ, those of the authors' code, or of the paper"},
                 {"topology", "ring", "ring, or butterfly for a power of two of workers"},
                 {"correlated", "true",
                  "random words of different workers lie in different W-th parts of [0, 1)"}},
        .build = parts_of};
}

}  // namespace apscope::detail
