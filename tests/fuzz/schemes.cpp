#include <algorithm>
#include <cstring>
#include <vector>

#include "emulation/allreduce/topology.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/exchange_run.h"
#include "tests/fuzz/targets.h"

namespace apscope::detail::fuzz {

void schemes(Bytes bytes) {
    constexpr std::size_t workers = 3, most = 200;
    const std::string_view text = text_of(bytes);
    const std::size_t line = text.find('\n');
    if (line == std::string_view::npos) return;
    SchemeParts scheme;
    if (!taken([&] { scheme = parse_scheme(text.substr(0, line)).own_parts(); })) return;
    std::vector<float> values((bytes.size() - line - 1) / sizeof(float));
    for (std::size_t i = 0; i < values.size(); ++i)
        std::memcpy(&values[i], bytes.data() + line + 1 + i * sizeof(float), sizeof(float));
    const std::size_t n = std::min(values.size() / workers, most);
    std::vector<std::span<const float>> gradients;
    for (std::size_t w = 0; w < workers; ++w)
        gradients.push_back(std::span(values).subspan(w * n, n));
    TrainingStep step;
    step.shape = {static_cast<std::int64_t>(n)};
    step.workers = workers;
    step.learning_rate = 0.1;
    step.loss = 1.0;
    step.weights = step.full_batch = gradients[0];
    step.packs = true;
    State state;
    const Topology topology = parse_topology("ring");
    for (; step.number < 2; ++step.number, ++step.index) {
        Exchange exchanged;
        if (!taken([&] { exchanged = exchange(scheme, step, state, gradients, {&topology, 1}); }))
            return;
        require(exchanged.sent.size() == workers && exchanged.reduced.size() == 1,
                "messages or sums are missing");
        for (const Message& message : exchanged.sent) {
            require(message.values.size() == n, "a message of another length");
            require(message.payload.size() == (message.payload_bits + 7) / 8,
                    "a payload of other bits than it says");
        }
        require(exchanged.reduced[0].size() == n, "a sum of another length");
    }
}

}  // namespace apscope::detail::fuzz
