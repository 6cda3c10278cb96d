// onebit_adam: the momentum of 1-bit Adam, exchanged in two phases of one bit each, both with error
// feedback. C(v) = s sign(v), sign(0) = +1, s = |v|_2 / sqrt(length of v), an fp32 number.
//
//      m_w  = beta1 m + (1 - beta1) g_w           m: what the last exchange gave, the same for all workers
//      v_w  = m_w + e_w, zeros behind             e_w = v_w - C(v_w)      all-to-all: chunk c goes to worker c
//      V    = mean of C(v_w) + E, each chunk      E   = V - C(V)          all-gather
//      m    = C(V)
//
// Padding to a multiple of W lcm(W, 8) is part of every scale and has errors of its own. For the first
// `warmup` steps the momentum is sent in a float format, without errors, and added exactly. The
// variance, frozen after the warm-up, is the optimizer's affair. The payload is the first phase's; the second
// moves as many bits again, as a ring does. Its own truth is m_w.
#include <array>

#include "core/named_formats.h"
#include "emulation/schemes/codecs/float_row.h"
#include "emulation/schemes/codecs/signs.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/shared/errors.h"

namespace apscope::detail {

namespace {

struct Memory {
    Row momentum;      // the same for all workers
    Row server_error;  // of the padded length
    long steps = 0;

    void fields(Fields& f) {
        f.row("momentum", momentum);
        f.row("server_error", server_error);
        f.numbers("steps", steps);
    }
};

struct Phase {
    bool warm = false;  // the momentum is sent in a float format

    void fields(Fields& f) { f.numbers("warm", warm); }
};

void take_momentum(State& state, Rows& rows, double beta) {
    Row& m = state.of<Memory>().momentum;
    m.resize(rows[0].size());
    for (Row& row : rows) {
        for (std::size_t i = 0; i < row.size(); ++i) row[i] = beta * m.at(i) + (1.0 - beta) * row[i];
    }
}

// What the workers encode: padded, with what they did not send before.
Rows with_errors(const State& state, const Rows& rows) {
    const Rows& errors = state.of<Errors>().rows;
    Rows v = rows;
    for (std::size_t w = 0; w < v.size(); ++w) {
        v[w].resize(padded_length(rows[w].size(), rows.size()), 0.0);
        for (std::size_t i = 0; i < v[w].size() && !errors.empty(); ++i) v[w][i] += errors.at(w).at(i);
    }
    return v;
}

Row serve(State& state, const std::vector<Message>& sent) {
    Row v = exact_sum(sent);
    const std::size_t workers = sent.size(), chunk = v.size() / workers;
    Row& error = state.of<Memory>().server_error;
    error.resize(v.size());
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = v[i] / static_cast<double>(workers) + error.at(i);
    for (std::size_t c = 0; c < workers; ++c) {
        const std::span<double> part = std::span(v).subspan(c * chunk, chunk);
        Message answer;
        encode_signs(answer, part, sign_scale(RowReader::of(part), SignScale::l2, chunk), 0, false);
        for (std::size_t i = 0; i < chunk; ++i) {
            error[c * chunk + i] = part[i] - answer.values[i];
            part[i] = static_cast<double>(workers) * answer.values[i];
        }
    }
    return v;
}

void keep(State& state, const Exchange& e, bool warm) {
    if (!warm) {
        Rows v = with_errors(state, e.intended);
        for (std::size_t w = 0; w < v.size(); ++w) {
            for (std::size_t i = 0; i < v[w].size(); ++i) v[w][i] -= e.sent[w].codes[i];
        }
        state.of<Errors>().rows = std::move(v);
    }
    Memory& memory = state.of<Memory>();
    memory.momentum = e.reduced[0];
    for (double& x : memory.momentum) x /= static_cast<double>(e.sent.size());
    ++memory.steps;
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
            .build = [](const SchemeArguments& arguments) -> SchemeKind {
        constexpr std::array<std::string_view, 2> formats{"fp32", "fp16"};
        const FloatGrid grid{parse_format(arguments.choice("warmup_format", formats)), {RoundingMode::ties_to_even, Overflow::saturate}};
        const auto warm = [warmup = arguments.integer("warmup", 0, 1L << 40)](const State& state) { return state.of<Memory>().steps < warmup; };
        TensorScheme t;
        t.grid = "sign";
        t.topology = reductions::two_phase;
        t.keeps_state = t.compares_intended = true;
        t.compensate = [beta = arguments.fraction("beta1")](const TrainingStep&, State& state, Rows& rows) { take_momentum(state, rows, beta); };
        t.forward = [warm](const TrainingStep&, const State& state, const Rows& rows) { return warm(state) ? rows : with_errors(state, rows); };
        t.inverse = [](const TrainingStep&, const State& state, Row& padded) { padded.resize(state.of<Memory>().momentum.size()); };
        t.select = [warm](const TrainingStep&, State& state, const Rows&) {
            Parameters theta;
            theta.own.of<Phase>().warm = warm(state);
            return theta;
        };
        t.encode = [grid](const TrainingStep& step, const Parameters& theta, std::span<const double> v, int worker) {
            Message m;
            if (theta.of<Phase>().warm) {
                encode_float_row(m, v, 1.0, grid, step.stream(worker, 32), step.packs, 0);
                m.grid_use.reset();  // the scheme's grid is signs
            } else {
                encode_signs(m, v, sign_scale(RowReader::of(v), SignScale::l2, v.size()), 0, step.packs);
                m.side_bits = 64;  // its scale, and that of the chunk it serves
                m.codes = m.values;
            }
            return m;
        };
        t.reduce = [](const TrainingStep&, State& state, const Parameters& theta, const std::vector<Message>& sent, const Topology&) {
            return theta.of<Phase>().warm ? exact_sum(sent) : serve(state, sent);
        };
        t.update = [warm](const TrainingStep&, State& state, const Exchange& e) { keep(state, e, warm(state)); };
        return t;
    }};
}

}  // namespace apscope::detail
