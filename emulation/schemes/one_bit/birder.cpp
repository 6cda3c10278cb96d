// birder: an adaptive step made of one stochastic bit an element, without error feedback or warm-up.
//
//      m_w = beta m_w + (1 - beta) g_w       b_w = beta b_w + (1 - beta) |g_w|     in fp32, so |m_w| <= b_w
//      u_w = m_w / b_w, 0 where b_w = 0      (amsgrad: b_w = max(b_w, its last value))
//      sent_w = Q(u_w)                       Q(u) = +1 with probability (1 + u) / 2, else -1
//      answer = Q(mean of sent_w)            chunk c of ceil(n / W) elements drawn by worker c
//
// Both draws are unbiased: E[answer] = mean of u_w, Var = 1 - that squared. An element that is 0 for
// everyone is a coin flip. group = G > 1: the u of G consecutive workers are averaged first, in full
// precision (what a node does on its fast links), and worker j of a node draws and sends, for all of it,
// chunk j of ceil(n / G) elements. The reduced sum is W answer. Its own truth is u_w. The update rule and
// the hierarchy are recalled from the paper, not checked against its text.
#include <algorithm>
#include <array>
#include <cmath>

#include "emulation/schemes/codecs/levels.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

constexpr std::array<double, 2> signs{-1.0, 1.0};
constexpr int random_bits = 32;
enum Hop : std::uint32_t { worker_hop, server_hop };

struct Moments {
    Rows m, b;  // a row a worker, of fp32 numbers

    void fields(Fields& f) {
        f.rows("m", m);
        f.rows("b", b);
    }
};

struct Nodes {
    Rows means;  // a row a node

    void fields(Fields& f) { f.rows("node", means); }
};

void take_ratio(State& state, Rows& rows, float beta, bool amsgrad) {
    const float rest = 1.0f - beta;
    Moments& moments = state.of<Moments>();
    moments.m.resize(rows.size(), Row(rows[0].size()));
    moments.b.resize(rows.size(), Row(rows[0].size()));
    for (std::size_t w = 0; w < rows.size(); ++w) {
        Row &m = moments.m[w], &b = moments.b[w];
        for (std::size_t i = 0; i < m.size(); ++i) {
            const auto g = static_cast<float>(rows[w].at(i)), before = static_cast<float>(b.at(i));
            const float moment = beta * static_cast<float>(m[i]) + rest * g;
            float magnitude = beta * before + rest * std::abs(g);
            if (amsgrad) magnitude = std::max(magnitude, before);
            m[i] = moment;
            b[i] = magnitude;
            rows[w][i] = magnitude == 0.0f ? 0.0 : m[i] / b[i];
        }
    }
}

// The mean over each node of `group` consecutive workers; the last may be smaller.
Parameters node_means(const Rows& u, std::size_t group) {
    Parameters theta;
    Rows& means = theta.own.of<Nodes>().means;
    for (std::size_t first = 0; first < u.size(); first += group) {
        const std::size_t last = std::min(first + group, u.size());
        Row& mean = means.emplace_back(u[first]);
        for (std::size_t w = first + 1; w < last; ++w) {
            for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += u[w][i];
        }
        for (double& x : mean) x /= static_cast<double>(last - first);
    }
    return theta;
}

// Elements first..first+count of a row. A worker draws for one chunk at a hop, with its words 0, 1, ...
struct Chunk {
    std::size_t first, count;
};
Chunk chunk_of(std::size_t n, std::size_t parts, std::size_t part) {
    const std::size_t size = (n + parts - 1) / parts, first = std::min(part * size, n);
    return {first, std::min(size, n - first)};
}
Message draw(std::span<const double> u, const TrainingStep& step, std::size_t worker, Hop hop) {
    return encode_levels(u, signs, 1.0, LevelRule::stochastic, step.stream(static_cast<int>(worker), random_bits, hop), step.packs);
}

Message node_message(const TrainingStep& step, const Nodes& nodes, std::size_t worker, std::size_t group) {
    const std::size_t node = worker / group, first = node * group;
    const std::size_t members = std::min(group, static_cast<std::size_t>(step.workers) - first);
    const Row& u = nodes.means.at(node);
    Message m;
    for (std::size_t j = 0; j < members; ++j) {
        const Chunk c = chunk_of(u.size(), members, j);
        Message part = draw(std::span(u).subspan(c.first, c.count), step, first + j, worker_hop);
        m.values.insert(m.values.end(), part.values.begin(), part.values.end());
        if (first + j != worker) continue;
        m.payload = std::move(part.payload);
        m.payload_bits = part.payload_bits;
    }
    return m;  // the members share their draws, so a worker's own moments would not add up
}

Row answer(const TrainingStep& step, const std::vector<Message>& sent) {
    Row mean = exact_sum(sent);
    const std::size_t workers = sent.size();
    for (double& x : mean) x /= static_cast<double>(workers);
    for (std::size_t w = 0; w < workers; ++w) {
        const Chunk c = chunk_of(mean.size(), workers, w);
        const Message part = draw(std::span(mean).subspan(c.first, c.count), step, w, server_hop);
        for (std::size_t i = 0; i < c.count; ++i) mean[c.first + i] = static_cast<double>(workers) * part.values[i];
    }
    return mean;
}

}  // namespace

SchemeDefinition birder_definition() {
    return {.class_name = "Birder",
            .summary = "stochastic signs of momentum over mean magnitude, binarised again on the way back",
            .source = "Peng et al., Birder: Communication-Efficient 1-bit Adaptive Optimizer, NeurIPS 2023",
            .needs = "gradients of consecutive steps",
            .keys = {{"beta", "0.9", "factor of both averages, from 0 to below 1"},
                     {"amsgrad", "false", "true: the mean magnitude never falls"},
                     {"group", "1", "workers a node, whose ratios are averaged before the first bit"}},
            .build = [](const SchemeArguments& arguments) -> SchemeKind {
        const auto beta = static_cast<float>(arguments.fraction("beta"));
        const bool amsgrad = arguments.flag("amsgrad");
        const auto group = static_cast<std::size_t>(arguments.integer("group", 1, 1L << 20));
        TensorScheme t;
        t.grid = "sign";
        t.topology = reductions::two_phase;
        t.keeps_state = t.compares_intended = t.draws = t.reduction_draws = true;
        t.transport.code_bits = 1;
        t.transport.node = static_cast<int>(group);
        t.compensate = [beta, amsgrad](const TrainingStep&, State& state, Rows& rows) { take_ratio(state, rows, beta, amsgrad); };
        if (group > 1) t.select = [group](const TrainingStep&, State&, const Rows& u) { return node_means(u, group); };
        t.encode = [group](const TrainingStep& step, const Parameters& theta, std::span<const double> u, int worker) {
            const auto w = static_cast<std::size_t>(worker);
            return group > 1 ? node_message(step, theta.of<Nodes>(), w, group) : draw(u, step, w, worker_hop);
        };
        t.reduce = [](const TrainingStep& step, State&, const Parameters&, const std::vector<Message>& sent, const Topology&) {
            return answer(step, sent);
        };
        return t;
    }};
}

}  // namespace apscope::detail
