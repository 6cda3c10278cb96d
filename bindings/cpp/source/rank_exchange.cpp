#include "bindings/cpp/apscope/rank_exchange.h"

#include <utility>

#include "bindings/cpp/source/edge.h"
#include "bindings/cpp/source/held.h"
#include "bindings/cpp/source/made_schemes.h"
#include "bindings/cpp/source/training.h"
#include "core/float_environment.h"
#include "emulation/schemes/rank_exchange.h"

namespace apscope {

struct RankExchange::Data {
    detail::RankExchange exchange;
};

RankExchange::RankExchange(std::string_view scheme, std::vector<TrainedTensor> tensors, int rank,
                           int workers, std::string_view topology, std::uint64_t seed,
                           bool divide) try {
    const detail::FloatEnvironment environment;
    data_ = std::make_unique<Data>(
        Data{detail::RankExchange(parse_any_scheme(scheme), step_tensors(std::move(tensors)), rank,
                                  workers, detail::parse_topology(topology), seed, divide)});
} catch (...) {
    detail::throw_error();
}
RankExchange::~RankExchange() = default;
RankExchange::RankExchange(RankExchange&&) noexcept = default;
RankExchange& RankExchange::operator=(RankExchange&&) noexcept = default;

RankExchange::Data& RankExchange::data() const { return held(data_, "RankExchange"); }

std::vector<std::vector<std::byte>> RankExchange::send(const RankStep& step) try {
    return data().exchange.send(
        {step.step, step.gradients, step.weights, step.loss, step.learning_rate});
} catch (...) {
    detail::throw_error();
}
std::vector<std::byte> RankExchange::add(std::span<const std::vector<std::byte>> received) try {
    return data().exchange.add(received);
} catch (...) {
    detail::throw_error();
}
std::vector<bool> RankExchange::receive(std::span<const std::vector<std::byte>> received,
                                        std::span<const std::span<float>> out) const try {
    return data().exchange.receive(received, out);
} catch (...) {
    detail::throw_error();
}

}  // namespace apscope
