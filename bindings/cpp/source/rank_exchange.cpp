#include "bindings/cpp/apscope/rank_exchange.h"

#include <stdexcept>
#include <utility>

#include "bindings/cpp/source/made_schemes.h"
#include "core/float_environment.h"
#include "emulation/schemes/rank_exchange.h"

namespace apscope {

struct RankExchange::Data {
    detail::RankExchange exchange;
};

RankExchange::RankExchange(std::string_view scheme, std::vector<TrainedTensor> tensors, int rank,
                           int workers, std::string_view topology, std::uint64_t seed,
                           bool divide) {
    const detail::FloatEnvironment environment;
    std::vector<detail::StepTensor> own;
    for (TrainedTensor& t : tensors)
        own.push_back({std::move(t.name), std::move(t.role), std::move(t.shape)});
    data_ = std::make_unique<Data>(
        Data{detail::RankExchange(parse_any_scheme(scheme), std::move(own), rank, workers,
                                  detail::parse_topology(topology), seed, divide)});
}
RankExchange::~RankExchange() = default;
RankExchange::RankExchange(RankExchange&&) noexcept = default;
RankExchange& RankExchange::operator=(RankExchange&&) noexcept = default;

RankExchange::Data& RankExchange::data() const {
    if (!data_)
        throw std::invalid_argument(
            "this RankExchange was moved from; use the object that it was moved "
            "to, or assign another");
    return *data_;
}

std::vector<std::vector<std::byte>> RankExchange::send(const RankStep& step) {
    return data().exchange.send(
        {step.step, step.gradients, step.weights, step.loss, step.learning_rate});
}
std::vector<std::byte> RankExchange::add(std::span<const std::vector<std::byte>> received) {
    return data().exchange.add(received);
}
std::vector<bool> RankExchange::receive(std::span<const std::vector<std::byte>> received,
                                        std::span<const std::span<float>> out) const {
    return data().exchange.receive(received, out);
}

}  // namespace apscope
