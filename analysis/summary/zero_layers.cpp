#include "analysis/summary/zero_layers.h"

#include <algorithm>
#include <cmath>

#include "analysis/summary/groups.h"
#include "analysis/summary/losses.h"

namespace apscope::detail {

namespace {

using C = NumberColumn;

// If the mean is at most twice its standard error, the gradient is not distinguishable from noise.
constexpr double no_signal = 4.0;
// A ratio of squares: the layer's noise is 2^-16 of the model's noise. Rounding errors of
// cancelling fp32 sums are at 2^-17 or below; gradients of parameters that change the output are
// far above.
constexpr double rounding_noise = 0x1p-32;

}  // namespace

std::vector<std::uint8_t> numerically_zero(std::span<const LayerAtStep> places) {
    struct Sums {
        double reference = 0.0, noise = 0.0, elements = 0.0;
        bool loud = false;  // at some step the noise is above that of rounding errors
    };
    const auto grown = [](std::vector<Sums>& sums, std::size_t i) -> Sums& {
        if (sums.size() <= i) sums.resize(i + 1);
        return sums[i];
    };
    std::vector<Sums> layers, steps;
    for (const LayerAtStep& place : places) {
        for (Sums* s : {&grown(layers, place.layer), &grown(steps, place.step)}) {
            s->reference += place.reference;
            s->noise += or_zero(place.noise);
            s->elements += place.elements;
        }
    }
    for (const LayerAtStep& place : places) {
        const Sums& step = steps[place.step];
        if (place.noise * step.elements > rounding_noise * step.noise * place.elements)
            layers[place.layer].loud = true;
    }
    std::vector<std::uint8_t> result;
    for (const Sums& l : layers)
        result.push_back(l.noise > 0.0 && l.reference <= no_signal * l.noise && !l.loud);
    return result;
}

std::vector<std::uint8_t> rows_of_zero_layers(const RowTable& table) {
    std::vector<std::uint8_t> result(table.rows, 0);
    const auto has = [&](C column) {
        return table.numbers[static_cast<std::size_t>(column)].size() == table.rows;
    };
    if (!has(C::sum_noise) || !has(C::sum_squared_reference) || !has(C::count)) return result;
    const auto noise = table[C::sum_noise], reference = table[C::sum_squared_reference],
               count = table[C::count];
    const Cells overflow = table.numbers[static_cast<std::size_t>(C::overflow)];
    const auto divided = [&](const Groups& groups, const Codes& column) {
        return groups.divided(column.levels, [&](std::size_t i) { return column.of_row[i]; });
    };
    const Groups traces = divided(Groups(table.rows), table.trace);
    const Groups layers = divided(traces, table.tensor);
    const Groups places = divided(layers, table.step);
    const std::vector<std::uint32_t> layer_of = places.owners(layers),
                                     step_of = places.owners(divided(traces, table.step));
    // The largest sums among the rows of a layer at a step. The reference of a row with overflow
    // omits the pairs that overflow; if all rows overflow, the gradient is larger than any rounding
    // error.
    struct Place : LayerAtStep {
        bool complete = false, overflowed = false;
    };
    std::vector<Place> of_place(places.size());
    for (std::size_t i = 0; i < table.rows; ++i) {
        if (table.wire[i]) continue;
        Place& place = of_place[places.of_row[i]];
        (has(C::overflow) && overflow[i] > 0 ? place.overflowed : place.complete) = true;
        place.reference = std::max(place.reference, or_zero(reference[i]));
        place.noise = std::max(place.noise, or_zero(noise[i]));
        place.elements = std::max(place.elements, or_zero(count[i]));
    }
    std::vector<LayerAtStep> judged;
    for (std::size_t p = 0; p < of_place.size(); ++p) {
        Place& place = of_place[p];
        place.layer = layer_of[p];
        place.step = step_of[p];
        if (place.overflowed && !place.complete) place.reference = infinity;
        judged.push_back(place);
    }
    const std::vector<std::uint8_t> zero = numerically_zero(judged);
    for (std::size_t i = 0; i < table.rows; ++i) result[i] = zero[layers.of_row[i]];
    return result;
}

}  // namespace apscope::detail
