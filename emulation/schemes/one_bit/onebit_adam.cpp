// onebit_adam: the momentum of 1-bit Adam, exchanged in two phases of one bit each, both with error
// feedback. C(v) = s sign(v), sign(0) = +1, s = |v|_2 / sqrt(length of v), an fp32 number.
//
//      m_w = beta1 m + (1 - beta1) g_w      m: the last exchange's result, equal for all workers
//      v_w = (m_w, zeros) + e_w             C(v_w) is sent all-to-all: chunk c to worker c
//      e_w = v_w - C(v_w)
//      V   = E + mean over w of C(v_w)      C(V) is sent by all-gather, each chunk with a scale
//      E   = V - C(V)
//      m   = C(V)
//
// v_w is padded to a multiple of W lcm(W, 8); the padding counts in every scale and has its own
// errors. In the first `warmup` steps the momentum is sent in a float format, without error
// feedback, and added exactly. Adam's variance, which is constant after the warm-up, belongs to the
// optimizer. The payload is that of phase 1; phase 2 has the same number of bits. The columns
// own_nmse and own_cosine compare with m_w.
#include <algorithm>
#include <array>

#include "core/fixed_shape_sum.h"
#include "core/named_formats.h"
#include "core/parse.h"
#include "emulation/machine/divide.h"
#include "emulation/machine/simd.h"
#include "emulation/schemes/codecs/add_row.h"
#include "emulation/schemes/codecs/float_row.h"
#include "emulation/schemes/codecs/signs.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/shared/errors.h"

namespace apscope::detail {

namespace {

struct Memory {
    Row momentum;      // equal for all workers
    Row server_error;  // E, including the padding
    long steps = 0;

    void fields(Fields& f) {
        f.row("momentum", momentum);
        f.row("server_error", server_error);
        f.numbers("steps", steps);
    }
};

struct Phases {
    bool warm = false;  // warm-up: the momentum is sent in a float format
    Row scales;         // scale of each worker's v_w
    Row answers;        // scale of each chunk of V
    Row padding;        // elements of v_w after the end of the tensor, for one worker after another

    void fields(Fields& f) {
        f.numbers("warm", warm);
        f.row("worker_scale", scales);
        f.row("server_scale", answers);
        f.row("padding", padding);
    }
};

double signed_as(double v, double scale) { return v >= 0.0 ? scale : -scale; }

struct TakeMomentum {
    static APSCOPE_INLINE void run(const double* m, double beta, std::size_t count, double* row) {
        for (std::size_t i = 0; i < count; ++i) row[i] = beta * m[i] + (1.0 - beta) * row[i];
    }
};
struct AddSigns {
    static APSCOPE_INLINE void run(const double* v, double scale, std::size_t count, double* sum) {
        for (std::size_t i = 0; i < count; ++i) sum[i] += v[i] >= 0.0 ? scale : -scale;
    }
};

// The elements of v_w after the first `elements`, which consist only of errors.
class Padding {
public:
    Padding(State& state, std::size_t workers, std::size_t elements)
        : errors_(state.of<Errors>().rows), server_(state.of<Memory>().server_error),
          elements_(elements), workers_(workers) {}

    std::size_t length() const { return server_.size() - elements_; }
    // A reader of worker w's row, followed by the padding.
    RowReader behind(const RowReader& row, std::size_t w) const {
        return {server_.size(),
                [&row, w, this, padded = Row()](std::size_t first, std::size_t count) mutable {
                    const std::size_t unpadded =
                        first < elements_ ? std::min(count, elements_ - first) : 0;
                    if (unpadded == count) return row.read(first, count);
                    padded.resize(count);
                    if (unpadded > 0) std::ranges::copy(row.read(first, unpadded), padded.begin());
                    for (std::size_t i = unpadded; i < count; ++i)
                        padded[i] = errors_.at(w).at(first + i);
                    return std::span<const double>(padded);
                }};
    }
    // Updates the errors of the padding, which no piece contains, for the next step.
    void keep(const Phases& phases) {
        const std::size_t chunk = server_.size() / workers_;
        for (std::size_t i = elements_; i < server_.size(); ++i) {
            for (std::size_t w = 0; w < workers_; ++w)
                errors_[w][i] -= signed_as(errors_[w][i], phases.scales[w]);
            server_[i] -= signed_as(server_[i], phases.answers[i / chunk]);
        }
    }

private:
    Rows& errors_;
    Row& server_;
    std::size_t elements_, workers_;
};

// Computes the scales of both phases. Replaces the server's error E by V, which answer() and keep()
// use.
Phases measure(State& state, std::span<const RowReader> rows) {
    Phases phases;
    const std::size_t workers = rows.size(), elements = rows[0].size;
    Padding padding(state, workers, elements);
    Row& server = state.of<Memory>().server_error;
    std::vector<RowReader> v;
    for (std::size_t w = 0; w < workers; ++w) v.push_back(padding.behind(rows[w], w));
    for (const RowReader& row : v)
        phases.scales.push_back(sign_scale(row, SignScale::l2, row.size));
    Row mean;
    for (std::size_t first = 0; first < server.size(); first += sum_block) {
        const std::size_t count = std::min(sum_block, server.size() - first);
        mean.assign(count, 0.0);
        for (std::size_t w = 0; w < workers; ++w)
            simd::run<AddSigns>(v[w].read(first, count).data(), phases.scales[w], count,
                                mean.data());
        simd::run<DivideRow>(mean.data(), static_cast<double>(workers), count);
        simd::run<AddRow>(mean.data(), count, server.data() + first);
    }
    const std::size_t chunk = server.size() / workers;
    for (std::size_t c = 0; c < workers; ++c) {
        phases.answers.push_back(sign_scale(
            RowReader::of(std::span(server).subspan(c * chunk, chunk)), SignScale::l2, chunk));
    }
    for (std::size_t w = 0; w < workers; ++w) {
        const std::span<const double> tail =
            std::span(state.of<Errors>().rows.at(w)).subspan(elements);
        phases.padding.insert(phases.padding.end(), tail.begin(), tail.end());
    }
    padding.keep(phases);
    return phases;
}

// Computes the sum that all workers get, W C(V).
void answer(const SentPieces& s, Row& sum) {
    const Row &server = s.state.of<Memory>().server_error, &answers = s.theta.of<Phases>().answers;
    const std::size_t chunk = server.size() / s.workers();
    for (std::size_t i = 0; i < sum.size(); ++i) {
        const std::size_t at = s.place.first + i;
        sum[i] = static_cast<double>(s.workers()) * signed_as(server[at], answers[at / chunk]);
    }
}

void keep(State& state, const Place& place, const Exchange& e, bool warm) {
    Memory& memory = state.of<Memory>();
    const Row& sum = e.reduced[0];
    const auto workers = static_cast<double>(e.sent.size());
    const std::span<double> momentum = piece_of(memory.momentum, place, sum.size());
    for (std::size_t i = 0; i < sum.size(); ++i) momentum[i] = sum[i] / workers;
    if (warm) return;
    for (std::size_t i = 0; i < sum.size(); ++i)
        memory.server_error[place.first + i] -= momentum[i];
    Rows& errors = state.of<Errors>().rows;
    for (std::size_t w = 0; w < errors.size(); ++w) {
        double* left = errors[w].data() + place.first;
        const double *m = e.intended[w].data(), *sent = e.sent[w].values.data();
        for (std::size_t i = 0; i < sum.size(); ++i) left[i] = m[i] + left[i] - sent[i];
    }
}

SchemeParts parts_of(const SchemeArguments& arguments) {
    constexpr std::array<std::string_view, 2> formats{"fp32", "fp16"};
    const FloatGrid grid{parse_format(arguments.choice("warmup_format", formats)),
                         {RoundingMode::ties_to_even, Overflow::saturate}};
    const auto warm = [warmup = arguments.integer("warmup", 0, largest_count)](const State& state) {
        return state.of<Memory>().steps < warmup;
    };
    SchemeParts scheme;
    scheme.grid = "sign";
    scheme.topology = reductions::two_phase;
    scheme.memory.feeds_errors_back = scheme.memory.compares_intended = true;
    scheme.memory.begin = [warm](State& state, std::size_t workers, std::size_t size) {
        Memory& memory = state.of<Memory>();
        if (memory.momentum.empty()) memory.momentum.resize(size, 0.0);
        check_length(memory.momentum.size(), size);
        if (warm(state)) return;
        const std::size_t padded = padded_length(size, workers);
        if (memory.server_error.empty()) memory.server_error.resize(padded, 0.0);
        check_length(memory.server_error.size(), padded);
        Rows& errors = state.of<Errors>().rows;
        errors.resize(workers, Row(padded, 0.0));
        for (const Row& row : errors) check_length(row.size(), padded);
    };
    scheme.memory.compensate =
        [beta = arguments.fraction("beta1")](const State& state, const Place& place,
                                             std::span<double> x, std::size_t) {
            simd::run<TakeMomentum>(piece_of(state.of<Memory>().momentum, place, x.size()).data(),
                                    beta, x.size(), x.data());
        };
    scheme.basis.adjust = [warm](const State& state, const Place& place, std::span<double> x,
                                 std::size_t w) {
        if (warm(state)) return;
        const Row& errors = state.of<Errors>().rows.at(w);
        simd::run<AddRow>(errors.data() + place.first, x.size(), x.data());
    };
    scheme.choice.select = [warm](const Selection& s) {
        Parameters theta;
        if (warm(s.state)) theta.extra.of<Phases>().warm = true;
        else theta.extra.of<Phases>() = measure(s.state, s.rows);
        return theta;
    };
    scheme.encoding.encode = [grid](const RowPiece& p, Message& m) {
        const Phases& phases = p.theta.of<Phases>();
        if (phases.warm) {
            encode_float_row(p, 1.0, grid, m);
            m.grid_use.reset();  // not counted, because the scheme's grid is `sign`
            return;
        }
        const double scale = phases.scales.at(p.worker);
        const std::size_t padding = phases.padding.size() / phases.scales.size();
        if (p.place.first + p.x.size() < p.place.size || padding == 0) {
            encode_signs(m, p.x, scale, 0, p.packs());
        } else {  // the last piece is followed by the signs of the padding
            Row padded_row(p.x.begin(), p.x.end());
            const double* tail = phases.padding.data() + p.worker * padding;
            padded_row.insert(padded_row.end(), tail, tail + padding);
            encode_signs(m, padded_row, scale, 0, p.packs());
            m.values.resize(p.x.size());
        }
        // Two fp32 numbers: the scales of the worker's row and of the worker's chunk.
        m.side_bits = m.tensor_bits = 64;
    };
    scheme.encoding.reduce = [](const SentPieces& s, Row& sum) {
        exact_sum(s.messages, sum);
        if (!s.theta.of<Phases>().warm) answer(s, sum);
    };
    scheme.memory.update = [warm](const TrainingStep&, State& state, const Place& place,
                                  const Exchange& e) { keep(state, place, e, warm(state)); };
    scheme.memory.end = [](const TrainingStep&, State& state) { ++state.of<Memory>().steps; };
    return scheme;
}

}  // namespace

SchemeDefinition onebit_adam_definition() {
    return {.class_name = "OneBitAdam",
            .summary = "the momentum in two phases of signs, errors fed back in both",
            .source = "Tang et al., 1-bit Adam, ICML 2021 (arXiv:2102.02888), as in DeepSpeed",
            .needs = "gradients of consecutive steps",
            .keys = {{"beta1", "0.9", "factor of the momentum, from 0 to below 1"},
                     {"warmup", "0", "steps at first whose momentum is sent in warmup_format"},
                     {"warmup_format", "fp32", "fp32 or fp16"}},
            .build = parts_of};
}

}  // namespace apscope::detail
