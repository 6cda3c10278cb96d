#include "emulation/schemes/shared/points.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "emulation/machine/simd.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/codecs/statistics.h"

namespace apscope::detail {

namespace {

TrainingStep at_point(const TrainingStep& step, std::uint32_t point) {
    TrainingStep at = step;
    if (point == 0) return at;
    const PhiloxBlock b = philox({{point, 0, 0, 0}}, step.key);
    at.key = {b.word[0], b.word[1]};
    return at;
}

void append(BitWriter& to, const Message& m) {
    BitReader from(m.payload);
    for (std::uint64_t left = m.payload_bits; left > 0;) {
        const int width = left < 64 ? static_cast<int>(left) : 64;
        to.put(from.get(width), width);
        left -= static_cast<std::uint64_t>(width);
    }
}

// residual -= values; a difference that is not finite is replaced by 0.
struct Subtract {
    static APSCOPE_INLINE void run(const double* values, std::size_t count, double* residual) {
        for (std::size_t i = 0; i < count; ++i) {
            const double left = residual[i] - values[i];
            residual[i] = left - left == 0.0 ? left : 0.0;
        }
    }
};
// Adds a point to the values (the first point replaces them) and subtracts it from the residual.
struct TakePoint {
    static APSCOPE_INLINE void run(const double* point, bool first, std::size_t count,
                                   double* values, double* residual) {
#pragma GCC ivdep  // the rows do not overlap
        for (std::size_t i = 0; i < count; ++i) values[i] = (first ? 0.0 : values[i]) + point[i];
        Subtract::run(point, count, residual);
    }
};

// The parameters that the inner scheme chose for a point, and its results of measure() for each
// worker's row; no rows if it has no measure().
struct Point {
    Parameters theta;
    Rows measured;

    std::span<const double> measured_of(std::size_t worker) const {
        return measured.empty() ? std::span<const double>()
                                : measured[place_of(worker, measured.size())];
    }
};

struct Chosen {
    std::vector<Point> points;
    std::vector<long> counts;  // the number of points that each worker sends

    // The rows j/... are the inner scheme's parameters of point j, the row j/own/w is its result of
    // measure() for worker w, and points/w is the number of points that worker w sends.
    void fields(Fields& f) {
        Rows rows;
        for (const long count : counts) rows.push_back({static_cast<double>(count)});
        f.rows("points", rows);
        counts.clear();
        for (const Row& row : rows) counts.push_back(static_cast<long>(row.at(0)));
        const auto prefix = [](std::size_t j) { return std::to_string(j) + "/"; };
        NamedRows& all = f.all();
        for (std::size_t j = 0; f.writes() && j < points.size(); ++j) {
            for (auto& [name, row] : points[j].theta.rows()) all[prefix(j) + name] = std::move(row);
            f.rows(prefix(j) + "own", points[j].measured);
        }
        const auto has = [&](std::size_t j) {
            return std::any_of(all.begin(), all.end(),
                               [&](const auto& r) { return r.first.starts_with(prefix(j)); });
        };
        for (std::size_t j = 0; !f.writes() && has(j); ++j) {
            Point& point = points.emplace_back();
            f.rows(prefix(j) + "own", point.measured);
            NamedRows inner;
            for (auto r = all.lower_bound(prefix(j));
                 r != all.end() && r->first.starts_with(prefix(j)); r = all.erase(r)) {
                inner[r->first.substr(prefix(j).size())] = std::move(r->second);
            }
            point.theta = Parameters::of_rows(std::move(inner));
        }
    }
};

struct Points {
    SchemeParts inner;
    long max;
    double nmse;  // 0: every worker sends `max` points

    // A reader of the residual of a row after the first `count` points.
    RowReader left_over(const TrainingStep& step, const Chosen& chosen, const RowReader& row,
                        std::size_t worker, long count) const {
        if (count == 0) return row;
        struct Left {
            Row row;
            std::size_t first = 0;
            Message point;
        };
        const auto read = [this, &step, &chosen, row, worker, count,
                           left_row = std::make_shared<Left>()](std::size_t first, std::size_t n) {
            Row& r = left_row->row;
            if (first < left_row->first || first + n > left_row->first + r.size()) {
                const bool whole_rows = inner.run == whole_row;
                const std::size_t begin = whole_rows ? 0 : first / inner.run * inner.run;
                const std::size_t end =
                    whole_rows
                        ? row.size
                        : std::min(row.size, (first + n + inner.run - 1) / inner.run * inner.run);
                const std::span<const double> values = row.read(begin, end - begin);
                r.assign(values.begin(), values.end());
                left_row->first = begin;
                for (long j = 0; j < count; ++j) {
                    encode_point(step, chosen, j, {begin, row.size}, r, worker, left_row->point);
                    simd::run<Subtract>(left_row->point.values.data(), r.size(), r.data());
                }
            }
            return std::span<const double>(r).subspan(first - left_row->first, n);
        };
        return {row.size, read};
    }

    void encode_point(const TrainingStep& step, const Chosen& chosen, long j, const Place& place,
                      std::span<const double> r, std::size_t worker, Message& m) const {
        const Point& point = chosen.points.at(static_cast<std::size_t>(j));
        inner.encoding.make({at_point(step, static_cast<std::uint32_t>(j)), point.theta,
                             point.measured_of(worker), place, r, worker},
                            m);
    }

    Parameters select(const Selection& selection) const {
        const auto& [step, state, x] = selection;
        Parameters theta;
        Chosen& chosen = theta.extra.of<Chosen>();
        chosen.counts.assign(x.size(), 0);
        std::vector<bool> active(x.size(), true);
        const auto squares = [](const RowReader& row) { return fixed_sum_of(row, square); };
        std::vector<double> enough;
        for (std::size_t w = 0; w < x.size() && nmse > 0.0; ++w)
            enough.push_back(nmse * squares(x[w]));
        for (long j = 0; j < max; ++j) {
            const TrainingStep at = at_point(step, static_cast<std::uint32_t>(j));
            std::vector<RowReader> left;
            for (std::size_t w = 0; w < x.size(); ++w) {
                RowReader row = left_over(step, chosen, x[w], w, active[w] ? j : 0);
                if (nmse > 0.0 && active[w] && squares(row) <= enough[w]) active[w] = false;
                if (active[w]) chosen.counts[w] = j + 1;
                left.push_back(active[w] ? std::move(row) : RowReader::of_zeros(x[w].size));
            }
            Point point;
            point.theta = inner.choice.parameters({at, state, left});
            if (inner.choice.draw) inner.choice.draw(at, point.theta, x[0].size);
            for (std::size_t w = 0; w < x.size() && inner.choice.measure; ++w)
                point.measured.push_back(inner.choice.measure({at, point.theta, left[w]}));
            chosen.points.push_back(std::move(point));
        }
        return theta;
    }

    void encode(const RowPiece& p, Message& m) const {
        const Chosen& chosen = p.theta.of<Chosen>();
        Row r(p.x.begin(), p.x.end());
        Message point;
        m.prepare(r.size(), false, false);
        m.side_bits = m.tensor_bits = nmse > 0.0 ? 8 : 0;
        BitWriter bits;
        const long count = chosen.counts.at(place_of(p.worker, chosen.counts.size()));
        if (count == 0) std::ranges::fill(m.values, 0.0);
        for (long j = 0; j < count; ++j) {
            encode_point(p.step, chosen, j, p.place, r, p.worker, point);
            simd::run<TakePoint>(point.values.data(), j == 0, r.size(), m.values.data(), r.data());
            m.payload_bits += point.payload_bits;
            m.side_bits += point.side_bits;
            m.tensor_bits += point.tensor_bits;
            if (p.packs()) append(bits, point);
        }
        m.payload = bits.take();
    }
};

}  // namespace

SchemeParts in_points(const SchemeParts& inner, long max, double nmse) {
    const auto points = std::make_shared<const Points>(inner, max, nmse);
    SchemeParts scheme = inner;
    scheme.transport.code_bits = 0;  // unknown, because it depends on the number of points
    // If the inner scheme draws, the residual depends on random words, and is computed for complete
    // rows.
    scheme.run = inner.draws() ? whole_row : inner.run;
    scheme.block = 0;
    scheme.topology = reductions::gather;
    scheme.choice = {.select = [points](const Selection& s) { return points->select(s); }};
    scheme.encoding = {
        .encode = [points](const RowPiece& piece, Message& m) { points->encode(piece, m); },
        .tables = inner.encoding.tables,
        .draws = inner.draws(),
        .rounds_special = inner.encoding.rounds_special,
        .mixes_elements = inner.encoding.mixes_elements};
    return scheme;
}

}  // namespace apscope::detail
