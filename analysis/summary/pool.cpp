#include "analysis/summary/pool.h"

#include <cmath>
#include <string>

#include "analysis/statistics/decibel.h"
#include "analysis/summary/losses.h"

namespace apscope::detail {

namespace {

using C = NumberColumn;

// Per group: the number of distinct steps of all rows, and of skipped rows.
struct Steps {
    std::vector<double> all, skipped;

    Steps(const RowTable& table, const ChosenRows& rows, const Groups& groups)
        : all(groups.size()), skipped(groups.size()) {
        const Groups steps = divided(groups, rows, table.step);
        std::vector<std::uint8_t> seen(steps.size(), 0);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            if (table.skipped[rows.row[i]]) seen[steps.of_row[i]] = 1;
        }
        const std::vector<std::uint32_t> owner = steps.owners(groups);
        for (std::size_t s = 0; s < steps.size(); ++s) {
            ++all[owner[s]];
            skipped[owner[s]] += seen[s];
        }
    }
};

double decibels(double nmse) {
    if (nmse == 0.0) return infinity;
    return std::isfinite(nmse) ? -fixed_decibel(nmse) : -nmse;
}

}  // namespace

Figures pooled(const RowTable& table, const ChosenRows& rows, const Groups& groups) {
    const std::size_t count = groups.size();
    const RowLosses losses(table);
    const auto element_count = table[C::count], wire_bits = table[C::wire_bits],
               side_bits = table[C::side_bits], volume = table[C::volume];
    table.workers_of_rows();
    struct Sums {
        PresentSum bits, elements, signed_error, absolute, error, reference, sent_error, noise;
        double volumes = 0, all_elements = 0;
        Loss total;
    };
    std::vector<Sums> sums(count);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::size_t row = rows.row[i];
        Sums& s = sums[groups.of_row[i]];
        const Loss loss = losses[row];
        const double elements = table.elements(row, element_count);
        s.bits.add(wire_bits[row] + side_bits[row]);
        s.elements.add(elements);
        s.all_elements += elements;
        s.volumes += elements == 0 ? 0.0 : volume[row] * elements;
        s.signed_error.add(losses.signed_error(row));
        s.absolute.add(losses.absolute(row));
        s.error.add(loss.error);
        s.reference.add(loss.reference);
        if (!table.skipped[row]) s.sent_error.add(loss.error);
        s.noise.add(loss.noise);
        s.total.add(loss);
    }

    Figures out;
    const Steps steps(table, rows, groups);
    out.add_integers("steps", count, [&](std::size_t g) { return steps.all[g]; });
    out.add_integers("skipped_steps", count, [&](std::size_t g) { return steps.skipped[g]; });
    out.add("bits_per_value", count, [&](std::size_t g) {
        return quotient(sums[g].bits.value(), sums[g].elements.value());
    });
    out.add("volume", count,
            [&](std::size_t g) { return quotient(sums[g].volumes, sums[g].all_elements); });
    for (const Pools how : {Pools::sum, Pools::part}) {
        for (std::size_t c = 0; c < number_columns.size(); ++c) {
            if (number_columns[c].pools != how) continue;
            const auto values = table[static_cast<C>(c)];
            std::vector<PresentSum> present(count);
            std::vector<double> all(count, 0.0);
            for (std::size_t i = 0; i < rows.size(); ++i) {
                const std::size_t row = rows.row[i], g = groups.of_row[i];
                if (table.skipped[row]) continue;
                if (how == Pools::sum) present[g].add(values[row]);
                else all[g] += values[row];
            }
            out.add(std::string(number_columns[c].name), count,
                    [&](std::size_t g) { return how == Pools::sum ? present[g].value() : all[g]; });
        }
    }
    out.add("sum_signed_error", count, [&](std::size_t g) { return sums[g].signed_error.value(); });
    out.add("sum_absolute_reference", count,
            [&](std::size_t g) { return sums[g].absolute.value(); });
    out.add("sum_squared_error", count, [&](std::size_t g) { return sums[g].error.value(); });
    out.add("sum_squared_reference", count,
            [&](std::size_t g) { return sums[g].reference.value(); });
    out.add("underflow_rate", count,
            [&](std::size_t g) { return quotient(out("underflow", g), out("nonzero", g)); });
    out.add("bias", count,
            [&](std::size_t g) { return quotient(out("sum_error", g), out("counted", g)); });
    out.add("relative_bias", count, [&](std::size_t g) {
        return quotient(sums[g].signed_error.value(), sums[g].absolute.value());
    });
    out.add("gain", count, [&](std::size_t g) { return sums[g].total.gain(); });
    out.add("mse", count, [&](std::size_t g) {
        return infinite_with(out("overflow", g),
                             quotient(sums[g].sent_error.value(), out("counted", g)));
    });
    out.add("variance", count, [&](std::size_t g) {
        const double bias = out("bias", g), variance = out("mse", g) - bias * bias;
        return variance < 0 ? 0.0 : variance;
    });
    out.add("nmse", count, [&](std::size_t g) {
        return nmse_of_sums(sums[g].error.value(), sums[g].reference.value(), out("overflow", g));
    });
    out.add("sqnr_db", count, [&](std::size_t g) { return decibels(out("nmse", g)); });
    out.add("sum_noise", count, [&](std::size_t g) { return sums[g].noise.value(); });
    out.add("error_over_noise", count, [&](std::size_t g) { return sums[g].total.over_noise(); });
    return out;
}

}  // namespace apscope::detail
