// sign_vote: every worker sends the signs of its gradient (signSGD) or of its momentum (Signum),
// and the server answers with the majority's signs.
//
//      m_w    = beta m_w + (1 - beta) g_w      beta = 0: the gradient itself, without a state
//      sent_w = sign(m_w)                      sign(0) = +1
//      vote   = sign(sum of sent_w)
//
// A tie, which is possible only for even W, gives +1 (`plus`, a bias) or 0 (`zero`, which costs
// log2(3) bits on the way back). The reduced sum is W vote, so that the mean is the vote. The
// payload is that of the messages to the server.
#include <algorithm>
#include <array>

#include "emulation/schemes/codecs/signs.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

struct Momentum {
    Rows rows;  // one per worker

    void fields(Fields& f) { f.rows("momentum", rows); }
};

void vote(const std::vector<Message>& sent, double tie, Row& sum) {
    exact_sum(sent, sum);
    const auto workers = static_cast<double>(sent.size());
    for (double& s : sum) s = workers * (s > 0.0 ? 1.0 : s < 0.0 ? -1.0 : tie);
}

}  // namespace

SchemeDefinition sign_vote_definition() {
    return {.class_name = "SignVote",
            .summary = "signs up, the majority's sign down; with a momentum: Signum",
            .source = "Bernstein et al., signSGD with Majority Vote, ICLR 2019 (arXiv:1810.05291)",
            .needs = "gradients; with a momentum, of consecutive steps",
            .keys = {{"momentum", "0", "beta of the workers' momentum, from 0 (none) to below 1"},
                     {"tie", "plus", "the result of an even vote: plus (+1) or zero"}},
            .build = [](const SchemeArguments& arguments) -> SchemeParts {
                constexpr std::array<std::string_view, 2> ties{"plus", "zero"};
                const double beta = arguments.fraction("momentum"),
                             tie = arguments.choice("tie", ties) == "plus" ? 1.0 : 0.0;
                SchemeParts scheme;
                scheme.grid = "sign";
                scheme.topology = reductions::vote;
                scheme.transport.code_bits = 1;
                // The number of bits per element of the answer.
                scheme.transport.sum_bits = [tie](int workers) {
                    return tie == 0.0 && workers % 2 == 0 ? 2 : 1;
                };
                if (beta != 0.0) {
                    scheme.memory.compares_intended = true;
                    scheme.memory.begin = [](State& state, std::size_t workers, std::size_t size) {
                        state.of<Momentum>().rows.resize(workers, Row(size, 0.0));
                    };
                    scheme.memory.take = [beta](State& state, const Place& place,
                                                std::span<const double> gradients, std::size_t w) {
                        const std::span<double> m =
                            piece_of(state.of<Momentum>().rows.at(w), place, gradients.size());
                        for (std::size_t i = 0; i < m.size(); ++i)
                            m[i] = beta * m[i] + (1.0 - beta) * gradients[i];
                    };
                    scheme.memory.compensate = [](const State& state, const Place& place,
                                                  std::span<double> x, std::size_t w) {
                        const std::span<const double> m =
                            piece_of(state.of<Momentum>().rows.at(w), place, x.size());
                        std::copy(m.begin(), m.end(), x.begin());
                    };
                }
                scheme.encoding.encode = [](const RowPiece& p, Message& m) {
                    encode_signs(m, p.x, 1.0, 0, p.packs());
                };
                scheme.encoding.reduce = [tie](const SentPieces& s, Row& sum) {
                    vote(s.messages, tie, sum);
                };
                return scheme;
            }};
}

}  // namespace apscope::detail
