#include "emulation/schemes/shared/points.h"

#include <algorithm>
#include <utility>

#include "emulation/machine/simd.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/codecs/statistics.h"

namespace apscope::detail {

namespace {

TrainingStep at_point(const TrainingStep& step, std::uint32_t point) {
    TrainingStep own = step;
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

// What is left of a row, 0 where it is not finite.
struct Subtract {
    static APSCOPE_INLINE void run(const double* values, std::size_t count, double* residual) {
        for (std::size_t i = 0; i < count; ++i) {
            const double left = residual[i] - values[i];
            residual[i] = left - left == 0.0 ? left : 0.0;
        }
    }
};
// The same, the values added to those of the points before, if there are any.
struct TakePoint {
    static APSCOPE_INLINE void run(const double* point, bool first, std::size_t count, double* values, double* residual) {
#pragma GCC ivdep  // rows of their own
        for (std::size_t i = 0; i < count; ++i) values[i] = (first ? 0.0 : values[i]) + point[i];
        Subtract::run(point, count, residual);
    }
};

// What the inner scheme chose for every point, and how many each worker sends.
struct Chosen {
    std::vector<Parameters> points;
    std::vector<long> counts;

    // The inner parameters of point j are named j/...; points/w is how many worker w sends.
    void fields(Fields& f) {
        Rows rows;
        for (const long count : counts) rows.push_back({static_cast<double>(count)});
        f.rows("points", rows);
        counts.clear();
        for (const Row& row : rows) counts.push_back(static_cast<long>(row.at(0)));
        const auto prefix = [](std::size_t j) { return std::to_string(j) + "/"; };
        NamedRows& all = f.all();
        for (std::size_t j = 0; f.writes() && j < points.size(); ++j) {
            for (auto& [name, row] : points[j].rows()) all[prefix(j) + name] = std::move(row);
        }
        const auto has = [&](std::size_t j) {
            return std::any_of(all.begin(), all.end(), [&](const auto& r) { return r.first.starts_with(prefix(j)); });
        };
        for (std::size_t j = 0; !f.writes() && has(j); ++j) {
            NamedRows own;
            for (auto r = all.lower_bound(prefix(j)); r != all.end() && r->first.starts_with(prefix(j)); r = all.erase(r)) {
                own[r->first.substr(prefix(j).size())] = std::move(r->second);
            }
            points.push_back(Parameters::of_rows(std::move(own)));
        }
    }
};

struct Points {
    TensorScheme inner;
    long max;
    double nmse;  // 0: always all points

    Parameters select(const TrainingStep& step, State& state, const Rows& x) const {
        Parameters theta;
        auto& [points, counts] = theta.own.of<Chosen>();
        counts.resize(x.size());
        const bool looks = inner.select || nmse > 0.0;  // at what is left over
        Rows r = looks ? x : Rows{};
        std::vector<bool> active(x.size(), true);
        std::vector<double> enough;
        for (const Row& row : x) enough.push_back(nmse * sum_of_squares(row));
        for (long j = 0; j < max; ++j) {
            if (!looks) {
                points.emplace_back();
                std::ranges::fill(counts, max);
                continue;
            }
            const TrainingStep own = at_point(step, static_cast<std::uint32_t>(j));
            for (std::size_t w = 0; w < r.size(); ++w) {
                if (nmse > 0.0 && active[w] && sum_of_squares(r[w]) <= enough[w]) active[w] = false;
                if (!active[w]) r[w].assign(r[w].size(), 0.0);  // it says nothing any more
                else counts[w] = j + 1;
            }
            const Parameters& chosen = points.emplace_back(inner.select ? inner.select(own, state, r) : Parameters{});
            if (j + 1 == max) break;
            for (std::size_t w = 0; w < r.size(); ++w) {
                if (!active[w]) continue;
                const Message point = inner.encode(own, chosen, r[w], static_cast<int>(w));
                simd::run<Subtract>(point.values.data(), r[w].size(), r[w].data());
            }
        }
        return theta;
    }

    Message encode(const TrainingStep& step, const Chosen& chosen, std::span<const double> x, int worker) const {
        Row r(x.begin(), x.end());
        Message m;
        m.values.resize(x.size());
        m.side_bits = nmse > 0.0 ? 8 : 0;
        BitWriter bits;
        const long count = chosen.counts.at(static_cast<std::size_t>(worker));
        for (long j = 0; j < count; ++j) {
            const Message point =
                inner.encode(at_point(step, static_cast<std::uint32_t>(j)), chosen.points.at(static_cast<std::size_t>(j)), r, worker);
            simd::run<TakePoint>(point.values.data(), j == 0, r.size(), m.values.data(), r.data());
            m.payload_bits += point.payload_bits;
            m.side_bits += point.side_bits;
            if (step.packs) append(bits, point);
        }
        m.payload = bits.take();
        return m;
    }
};

}  // namespace

TensorScheme in_points(TensorScheme inner, long max, double nmse) {
    TensorScheme t = inner;
    const Points points{std::move(inner), max, nmse};
    t.select = [points](const TrainingStep& step, State& state, const Rows& x) { return points.select(step, state, x); };
    t.encode = [points](const TrainingStep& step, const Parameters& theta, std::span<const double> x, int worker) {
        return points.encode(step, theta.of<Chosen>(), x, worker);
    };
    t.crosses_topologies = t.is_exact_sum = t.reduction_draws = false;
    t.limits.reset();
    t.blocks.reset();  // what is left over depends on whole rows
    t.topology = reductions::gather;
    t.reduce = {};
    return t;
}

}  // namespace apscope::detail
