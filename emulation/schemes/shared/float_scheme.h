// The keys that all schemes on a float grid have, and the scheme parts built from these keys.
#pragma once

#include <utility>
#include <vector>

#include "emulation/schemes/definition.h"
#include "emulation/schemes/shared/shifts.h"

namespace apscope::detail {

// The default values of the keys rounding, overflow and accumulate.
struct FloatDefaults {
    std::string_view rounding = "ties_to_even", overflow = "ieee", accumulate = "format";
};

// The keys of a scheme on a float grid: its own keys first, then rounding, overflow, random_bits,
// accumulate, hop_rounding and divide.
std::vector<SchemeKey> float_keys(std::vector<SchemeKey> keys = {},
                                  const FloatDefaults& defaults = {});

// Makes scheme parts (grid, encoder, transport) from the values of the keys of float_keys().
// side_bits: the bits per tensor, besides the codes, with which the workers agree on the scale.
SchemeParts float_scheme(const SchemeArguments& arguments, std::uint64_t side_bits = 0,
                         Choose choose = {});
// The same, with one decision for every tensor and step, on which the workers need not agree.
SchemeParts float_scheme(const SchemeArguments& arguments, const Decision& constant);

// Throws std::invalid_argument if the grid divides, because a scheme that gathers codes and adds
// decoded values cannot divide. gathers: the text of the setting that makes the scheme gather, for
// the error message.
void require_undivided(const FloatGrid& grid, const SchemeArguments& arguments,
                       std::string_view gathers);

// A scheme that rounds stochastically to the format and gathers the codes. The scale of a tensor is
// a power of two, computed from the amax of all workers with Headroom::one. The arguments must have
// the key random_bits.
SchemeParts gathered_scheme(const SchemeArguments& arguments, const FloatFormat& format,
                            Overflow overflow);

// The input of choose_each()'s rule, which makes the decision rule(statistics, state) for each
// tensor and step separately, in the order of the steps.
struct TensorStatistics {
    const AgreedStatistics& agreed;
    const std::string& tensor;
    int workers;
};
template <class Rule>
Choose choose_each(Rule rule) {
    return [rule = std::move(rule)](const SelectionInput& input, State& state) {
        std::vector<Decision> decisions;
        decisions.reserve(input.statistics.size());
        for (std::size_t i = 0; i < input.statistics.size(); ++i)
            decisions.push_back(
                rule(TensorStatistics{input.statistics[i], input.names.at(i % input.tensors),
                                      input.workers},
                     state));
        return decisions;
    };
}

}  // namespace apscope::detail
