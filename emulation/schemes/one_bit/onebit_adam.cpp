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
#include "emulation/schemes/one_bit/one_bit.h"

namespace apscope::detail {

namespace {

void take_momentum(State& state, Rows& rows, double beta) {
    const Row& m = state.try_emplace("momentum", rows[0].size(), 0.0).first->second;
    for (Row& row : rows) {
        for (std::size_t i = 0; i < row.size(); ++i) row[i] = beta * m.at(i) + (1.0 - beta) * row[i];
    }
}

// What the workers encode: padded, with what they did not send before.
Rows with_errors(const State& state, const Rows& rows) {
    Rows v = rows;
    for (std::size_t w = 0; w < v.size(); ++w) {
        v[w].resize(padded_length(rows[w].size(), rows.size()), 0.0);
        if (const auto e = state.find(row_of("error", w)); e != state.end()) {
            for (std::size_t i = 0; i < v[w].size(); ++i) v[w][i] += e->second.at(i);
        }
    }
    return v;
}

Row serve(State& state, const std::vector<Message>& sent) {
    Row v = exact_sum(sent);
    const std::size_t workers = sent.size(), chunk = v.size() / workers;
    Row& error = state.try_emplace("server_error", v.size(), 0.0).first->second;
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = v[i] / static_cast<double>(workers) + error.at(i);
    for (std::size_t c = 0; c < workers; ++c) {
        const std::span<double> part = std::span(v).subspan(c * chunk, chunk);
        const Message answer = encode_signs(part, sign_scale(part, SignScale::l2, chunk), chunk, false);
        for (std::size_t i = 0; i < chunk; ++i) {
            error[c * chunk + i] = part[i] - answer.values[i];
            part[i] = static_cast<double>(workers) * answer.values[i];
        }
    }
    return v;
}

void keep(State& state, const Exchange& e, bool warm) {
    const Rows v = warm ? Rows{} : with_errors(state, e.asked);
    for (std::size_t w = 0; w < v.size(); ++w) {
        Row& error = state[row_of("error", w)] = v[w];
        for (std::size_t i = 0; i < error.size(); ++i) error[i] -= e.sent[w].codes[i];
    }
    Row& m = state["momentum"] = e.reduced[0];
    for (double& x : m) x /= static_cast<double>(e.sent.size());
    state["steps"] = {state.contains("steps") ? number(state, "steps") + 1.0 : 1.0};
}

}  // namespace

SchemeDefinition onebit_adam_definition() {
    return {"onebit_adam",
            "OneBitAdam",
            "the momentum in two phases of signs, errors fed back in both",
            "Tang et al., 1-bit Adam, ICML 2021 (arXiv:2102.02888), as in DeepSpeed",
            "gradients of consecutive steps",
            false,
            {{"beta1", "0.9", "factor of the momentum, from 0 to below 1"},
             {"warmup", "0", "steps at first whose momentum is sent in warmup_format"},
             {"warmup_format", "fp32", "fp32 or fp16"}},
            [](const SchemeArguments& arguments, Scheme& scheme) {
                constexpr std::array<std::string_view, 2> formats{"fp32", "fp16"};
                const double beta = fraction(arguments, "beta1");
                const long warmup = arguments.integer("warmup", 0, 1L << 40);
                const FloatGrid grid{parse_format(std::string(arguments.choice("warmup_format", formats))),
                                     {RoundingMode::ties_to_even, Overflow::saturate}};
                const auto warm = [warmup](const State& state) {
                    return (state.contains("steps") ? number(state, "steps") : 0.0) < static_cast<double>(warmup);
                };
                TensorScheme t;
                t.grid = "sign";
                t.topology = "two_phase";
                t.keeps_state = t.compares_asked = true;
                t.compensate = [beta](const TensorStep&, State& state, Rows& rows) { take_momentum(state, rows, beta); };
                t.forward = [warm](const TensorStep&, const State& state, const Rows& rows) {
                    return warm(state) ? rows : with_errors(state, rows);
                };
                t.inverse = [](const TensorStep&, const State& state, const Row& padded) {
                    return Row(padded.begin(), padded.begin() + static_cast<std::ptrdiff_t>(state.at("momentum").size()));
                };
                t.select = [warm](const TensorStep&, State& state, const Rows&) {
                    return State{{"warm", {warm(state) ? 1.0 : 0.0}}};
                };
                t.encode = [grid](const TensorStep& step, const State& theta, std::span<const double> v, int worker) {
                    Message m;
                    if (number(theta, "warm") != 0.0) {
                        m = encode_float_row(v, 1.0, grid, step.stream(worker, 32), step.packs);
                        m.grid_use.reset();  // the scheme's grid is signs
                    } else {
                        m = encode_signs(v, sign_scale(v, SignScale::l2, v.size()), v.size(), step.packs);
                        m.side_bits = 64;  // its scale, and that of the chunk it serves
                        m.codes = m.values;
                    }
                    return m;
                };
                t.reduce = [](const TensorStep&, State& state, const State& theta, const std::vector<Message>& sent,
                              const Topology&) {
                    return number(theta, "warm") != 0.0 ? exact_sum(sent) : serve(state, sent);
                };
                t.update = [warm](const TensorStep&, State& state, const Exchange& e) { keep(state, e, warm(state)); };
                scheme.tensor = std::make_shared<const TensorScheme>(std::move(t));
            }};
}

}  // namespace apscope::detail
