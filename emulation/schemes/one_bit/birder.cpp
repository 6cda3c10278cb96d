// birder: an adaptive step made of one stochastic bit per element, without error feedback or
// warm-up.
//
//      m_w    = beta m_w + (1 - beta) g_w       in fp32
//      b_w    = beta b_w + (1 - beta) |g_w|     in fp32, so |m_w| <= b_w
//      b_w    = max(b_w, b_w of the last step)  with amsgrad
//      u_w    = m_w / b_w                       0 where b_w = 0
//      sent_w = Q(u_w)                          Q(u) = +1 with probability (1 + u) / 2, else -1
//      answer = Q(mean of sent_w)               worker c rounds chunk c of ceil(n / W) elements
//
// Both roundings are unbiased: E[answer] = mean of u_w, Var[answer] = 1 - (mean of u_w)^2. An
// element that is 0 for all workers becomes +1 or -1 with equal probability. With group = G > 1,
// the u_w of G consecutive workers, which form a node, are averaged first, in full precision, as a
// node can do on its fast links; worker j of a node then rounds and sends chunk j of ceil(n / G)
// elements for the node. The reduced sum is W answer. The columns own_nmse and own_cosine compare
// with u_w. The update rule and the hierarchy were written from memory of the paper, not checked
// against its text.
#include <algorithm>
#include <cmath>

#include "emulation/machine/divide.h"
#include "emulation/schemes/codecs/levels.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

constexpr int random_bits = 32;
enum Hop : std::uint32_t { worker_hop, server_hop };

struct Moments {
    Rows m, b;  // one row of fp32 numbers per worker

    void fields(Fields& f) {
        f.rows("m", m);
        f.rows("b", b);
    }
};

void take_moments(std::span<double> m, std::span<double> b, std::span<const double> gradients,
                  float beta, bool amsgrad) {
    const float rest = 1.0f - beta;
    for (std::size_t i = 0; i < m.size(); ++i) {
        const auto g = static_cast<float>(gradients[i]), before = static_cast<float>(b[i]);
        float magnitude = beta * before + rest * std::abs(g);
        if (amsgrad) magnitude = std::max(magnitude, before);
        m[i] = beta * static_cast<float>(m[i]) + rest * g;
        b[i] = magnitude;
    }
}

// For every worker, the mean of u over the worker's node of `group` consecutive workers; the last
// node may be smaller.
void node_means(const Rows& u, std::size_t group, Rows& means) {
    means.resize(u.size());
    for (std::size_t first = 0; first < u.size(); first += group) {
        const std::size_t last = std::min(first + group, u.size());
        Row& mean = means[first];
        mean = u[first];
        for (std::size_t w = first + 1; w < last; ++w) {
            for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += u[w][i];
        }
        simd::run<DivideRow>(mean.data(), static_cast<double>(last - first), mean.size());
        for (std::size_t w = first + 1; w < last; ++w) means[w] = mean;
    }
}

// Elements first .. first + count - 1 of a row. At each hop a worker rounds one chunk, with the
// worker's random words 0, 1, ...
struct Chunk {
    std::size_t first, count;
};
Chunk chunk_of(std::size_t n, std::size_t parts, std::size_t part) {
    const std::size_t size = (n + parts - 1) / parts, first = std::min(part * size, n);
    return {first, std::min(size, n - first)};
}
// Calls work(part, begin, count, word) for every chunk that overlaps a piece of `count` elements:
// elements begin .. begin + count - 1 of the piece belong to chunk `part` and use the random words
// from `word` on.
template <class Work>
void for_chunks(const Place& place, std::size_t count, std::size_t parts, Work&& work) {
    for (std::size_t part = 0; part < parts; ++part) {
        const Chunk c = chunk_of(place.size, parts, part);
        const std::size_t begin = std::max(c.first, place.first),
                          end = std::min(c.first + c.count, place.first + count);
        if (begin < end) work(part, begin - place.first, end - begin, begin - c.first);
    }
}
void draw(Message& m, std::span<const double> u, const TrainingStep& step, std::size_t worker,
          Hop hop, std::size_t first) {
    static const LevelTable signs({-1.0, 1.0});
    encode_levels(m, u, signs, 1.0, LevelRule::stochastic, step.stream(worker, random_bits, hop),
                  step.packs, first);
}

// Makes the message of a worker's node, in which each member rounds one chunk; p.x is the node's
// mean.
void node_message(Message& m, const RowPiece& p, std::size_t group) {
    const std::size_t first = p.worker / group * group,
                      members = std::min(group, static_cast<std::size_t>(p.step.workers) - first);
    thread_local Message part;
    // The message has no moments: all members of a node have the same message, so the variance of
    // the sum is not the sum of their variances.
    m.prepare(p.x.size(), false, false);
    for_chunks(p.place, p.x.size(), members,
               [&](std::size_t j, std::size_t begin, std::size_t count, std::size_t word) {
                   draw(part, p.x.subspan(begin, count), p.step, first + j, worker_hop, word);
                   std::copy(part.values.begin(), part.values.end(),
                             m.values.begin() + static_cast<std::ptrdiff_t>(begin));
                   if (first + j != p.worker) return;
                   m.payload = part.payload;
                   m.payload_bits = part.payload_bits;
               });
}

void answer(const SentPieces& s, Row& sum) {
    exact_sum(s.messages, sum);
    const auto workers = static_cast<double>(s.workers());
    simd::run<DivideRow>(sum.data(), workers, sum.size());
    thread_local Message part;
    for_chunks(s.place, sum.size(), s.workers(),
               [&](std::size_t w, std::size_t begin, std::size_t count, std::size_t word) {
                   draw(part, std::span(sum).subspan(begin, count), s.step, w, server_hop, word);
                   for (std::size_t i = 0; i < count; ++i)
                       sum[begin + i] = workers * part.values[i];
               });
}

}  // namespace

SchemeDefinition birder_definition() {
    return {
        .class_name = "Birder",
        .summary =
            "stochastic signs of momentum over mean magnitude, binarised again on the way back",
        .source =
            "Peng et al., Birder: Communication-Efficient 1-bit Adaptive Optimizer, NeurIPS 2023",
        .needs = "gradients of consecutive steps",
        .keys = {{"beta", "0.9", "factor of both averages, from 0 to below 1"},
                 {"amsgrad", "false", "true: the mean magnitude never falls"},
                 {"group", "1", "workers per node, whose ratios are averaged before the first bit"},
                 correlated_key},
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            const auto beta = static_cast<float>(arguments.fraction("beta"));
            const bool amsgrad = arguments.flag("amsgrad");
            const auto group = static_cast<std::size_t>(arguments.integer("group", 1, 1L << 20));
            SchemeParts scheme;
            scheme.grid = "sign";
            scheme.topology = reductions::two_phase;
            scheme.memory.compares_intended = scheme.encoding.draws = scheme.encoding.sum_draws =
                true;
            scheme.transport.code_bits = 1;
            scheme.transport.node = static_cast<int>(group);
            scheme.memory.begin = [](State& state, std::size_t workers, std::size_t size) {
                for (Rows* rows : {&state.of<Moments>().m, &state.of<Moments>().b})
                    rows->resize(workers, Row(size, 0.0));
            };
            scheme.memory.take = [beta, amsgrad](State& state, const Place& place,
                                                 std::span<const double> gradients, std::size_t w) {
                Moments& moments = state.of<Moments>();
                take_moments(piece_of(moments.m.at(w), place, gradients.size()),
                             piece_of(moments.b.at(w), place, gradients.size()), gradients, beta,
                             amsgrad);
            };
            scheme.memory.compensate = [](const State& state, const Place& place,
                                          std::span<double> x, std::size_t w) {
                const Moments& moments = state.of<Moments>();
                const std::span<const double> m = piece_of(moments.m.at(w), place, x.size()),
                                              b = piece_of(moments.b.at(w), place, x.size());
                for (std::size_t i = 0; i < x.size(); ++i) x[i] = b[i] == 0.0 ? 0.0 : m[i] / b[i];
            };
            if (group > 1)
                scheme.basis.forward = [group](const TrainingStep&, const State&, const Rows& u,
                                               Rows& x) { node_means(u, group, x); };
            scheme.encoding.encode = [group](const RowPiece& p, Message& m) {
                if (group > 1) node_message(m, p, group);
                else draw(m, p.x, p.step, p.worker, worker_hop, p.place.first);
            };
            scheme.encoding.reduce = answer;
            return scheme;
        }};
}

}  // namespace apscope::detail
