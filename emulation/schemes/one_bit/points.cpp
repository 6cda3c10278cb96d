#include "emulation/schemes/one_bit/points.h"

#include <algorithm>
#include <utility>

#include "core/fixed_shape_sum.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/one_bit/one_bit.h"

namespace apscope::detail {

namespace {

double squares(std::span<const double> x) {
    double sum = 0.0;
    for (std::size_t first = 0; first < x.size(); first += sum_block) {
        sum += block_sum(std::min(sum_block, x.size() - first), [&](std::size_t i) { return x[first + i] * x[first + i]; });
    }
    return sum;
}

TensorStep at_point(const TensorStep& step, std::uint32_t point) {
    TensorStep own = step;
    if (point == 0) return own;
    const PhiloxBlock b = philox({{point, 0, 0, 0}}, step.key);
    own.key = {b.word[0], b.word[1]};
    return own;
}

void append(BitWriter& to, const Message& m) {
    BitReader from(m.payload);
    for (std::uint64_t left = m.payload_bits; left > 0;) {
        const int width = left < 64 ? static_cast<int>(left) : 64;
        to.put(from.get(width), width);
        left -= static_cast<std::uint64_t>(width);
    }
}

void subtract(Row& residual, const Row& values) {
    for (std::size_t i = 0; i < residual.size(); ++i) {
        const double left = residual[i] - values[i];
        residual[i] = left - left == 0.0 ? left : 0.0;
    }
}

struct Points {
    TensorScheme inner;
    long most;
    double nmse;  // 0: always all points

    // The inner parameters of point j are named j/...; points/w is how many worker w sends.
    State select(const TensorStep& step, State& state, const Rows& x) const {
        State theta;
        Rows r = x;
        std::vector<bool> active(x.size(), true);
        std::vector<double> enough;
        for (const Row& row : x) enough.push_back(nmse * squares(row));
        for (long j = 0; j < most; ++j) {
            const TensorStep own = at_point(step, static_cast<std::uint32_t>(j));
            for (std::size_t w = 0; w < r.size(); ++w) {
                if (nmse > 0.0 && active[w] && squares(r[w]) <= enough[w]) active[w] = false;
                if (!active[w]) r[w].assign(r[w].size(), 0.0);  // it says nothing any more
                else theta[row_of("points", w)] = {static_cast<double>(j + 1)};
            }
            const State chosen = inner.select ? inner.select(own, state, r) : State{};
            for (const auto& [name, row] : chosen) theta[std::to_string(j) + "/" + name] = row;
            if (j + 1 == most) break;
            for (std::size_t w = 0; w < r.size(); ++w) {
                if (active[w]) subtract(r[w], inner.encode(own, chosen, r[w], static_cast<int>(w)).values);
            }
        }
        return theta;
    }

    Message encode(const TensorStep& step, const State& theta, std::span<const double> x, int worker) const {
        const auto counted = theta.find(row_of("points", static_cast<std::size_t>(worker)));
        const long count = counted == theta.end() ? 0 : static_cast<long>(counted->second.at(0));
        Row r(x.begin(), x.end());
        Message m;
        m.values.assign(x.size(), 0.0);
        m.side_bits = nmse > 0.0 ? 8 : 0;
        BitWriter bits;
        for (long j = 0; j < count; ++j) {
            const std::string prefix = std::to_string(j) + "/";
            State chosen;
            for (auto t = theta.lower_bound(prefix); t != theta.end() && t->first.starts_with(prefix); ++t) {
                chosen[t->first.substr(prefix.size())] = t->second;
            }
            const Message point = inner.encode(at_point(step, static_cast<std::uint32_t>(j)), chosen, r, worker);
            for (std::size_t i = 0; i < r.size(); ++i) m.values[i] += point.values[i];
            subtract(r, point.values);
            m.payload_bits += point.payload_bits;
            m.side_bits += point.side_bits;
            if (step.packs) append(bits, point);
        }
        m.payload = bits.take();
        return m;
    }
};

}  // namespace

TensorScheme in_points(TensorScheme inner, long most, double nmse) {
    TensorScheme t = inner;
    const Points points{std::move(inner), most, nmse};
    t.select = [points](const TensorStep& step, State& state, const Rows& x) { return points.select(step, state, x); };
    t.encode = [points](const TensorStep& step, const State& theta, std::span<const double> x, int worker) {
        return points.encode(step, theta, x, worker);
    };
    t.crosses_topologies = t.is_exact_sum = t.reduction_draws = false;
    t.limits.reset();
    t.topology = "gather";
    t.reduce = {};
    return t;
}

}  // namespace apscope::detail
