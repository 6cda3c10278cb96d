#include "emulation/schemes/defined_scheme.h"

#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "emulation/schemes/choice.h"

namespace apscope::detail {

namespace {

void replace_basis(SchemeParts& scheme, DefinedParts& defined) {
    SchemeBasis& basis = scheme.basis;
    if (!defined.forward && !defined.inverse) return;
    if (defined.forward) {
        basis.adjust = {};
        basis.forward = std::move(defined.forward);
    }
    if (defined.inverse) basis.inverse = std::move(defined.inverse);
    if (!basis.inverse || !basis.forward) {
        throw std::invalid_argument(
            std::string(basis.forward ? "forward" : "inverse") + " is given without " +
            (basis.forward ? "inverse, which changes the sum back" : "forward") +
            "; give both, or a base that has the other");
    }
}

// Throws std::invalid_argument unless a float format can be scaled by it.
void check_scale(double scale) {
    if (scale > 0 && std::isfinite(scale)) return;
    throw std::invalid_argument("select gives the scale " + std::to_string(scale) +
                                "; it must be a positive finite number");
}

void replace_choice(SchemeParts& scheme, DefinedParts& defined) {
    SchemeChoice& choice = scheme.choice;
    if (choice.choose) {  // the caller's parts get one tensor at a time
        const NeededStatistics needed{.sums = choice.needs_sums};
        choice.select = [choose = std::move(choice.choose), needed](const Selection& s) {
            return choose_for(choose, s, needed);
        };
        choice.choose = {};
    }
    if (!defined.select) return;
    if (choice.draw) choice.draw = common_words;
    const bool scales_floats = scheme.encoding.float_encoder && !defined.encode;
    choice.select = [select = std::move(defined.select), scales_floats](const Selection& s) {
        Parameters theta = select(s);
        if (scales_floats && !theta.skipped) {
            if (theta.scale) check_scale(*theta.scale);
            for (const double scale : theta.scales) check_scale(scale);
        }
        return theta;
    };
    choice.is_constant = false;
}

void replace_encoding(SchemeParts& scheme, DefinedParts& defined) {
    SchemeEncoding& encoding = scheme.encoding;
    if (defined.encode) {
        scheme.choice.measure = {};
        encoding.encode = [encode = std::move(defined.encode), bits = defined.bits,
                           side_bits = defined.side_bits](const RowPiece& p, Message& m) {
            m.prepare(0, false, false);
            m.payload_bits = p.x.size() * static_cast<std::uint64_t>(bits);
            m.side_bits = side_bits;
            encode(p, m);
        };
        encoding.draws = defined.draws;
        encoding.rounds_special = false;
        encoding.decode_sum = {};
        encoding.float_encoder.reset();
        scheme.transport = {};
    }
    if (defined.reduce) {
        encoding.is_exact_sum = false;
        encoding.decode_sum = {};
        encoding.sum_draws = scheme.draws();
        encoding.reduce = std::move(defined.reduce);
    }
}

void replace_memory(SchemeParts& scheme, DefinedParts& defined) {
    SchemeMemory& memory = scheme.memory;
    const bool updates = static_cast<bool>(defined.update);
    memory.keeps = defined.keeps_state.value_or(updates || scheme.keeps_state());
    memory.needs_all_rows = memory.needs_all_rows || updates || defined.compensate;
    // The base's rows are made as long as one of its own functions may read them.
    if (defined.compensate && defined.update && (defined.select || !scheme.choice.select))
        memory.begin = {};
    if (defined.compensate) {
        memory.take = {};
        memory.compensate = {};
        memory.compensate_all = std::move(defined.compensate);
    }
    if (defined.update) {
        memory.end = {};
        scheme.encoding.rounds_special = false;  // the caller expects finite numbers
        memory.update = [update = std::move(defined.update)](const TrainingStep& step, State& state,
                                                             const Place&, const Exchange& e) {
            update(step, state, e);
        };
    }
    memory.compares_intended = memory.compares_intended || defined.compares_intended;
}

}  // namespace

Scheme define_scheme(const std::string& name, const Scheme& base, DefinedParts parts) {
    if (name == "main" || name == "all")
        throw std::invalid_argument("'" + name +
                                    "' cannot name a new scheme: it is the name of a list of "
                                    "schemes; give another one");
    if (parts.bits < 0 || parts.bits > 64)
        throw std::invalid_argument("bits=" + std::to_string(parts.bits) +
                                    " is not between 0 and 64");
    Scheme scheme = base;
    SchemeParts own = base.inner_parts();
    if (parts.any() || !own.defined_as.empty()) own.defined_as = name;
    if (parts.any()) {
        own.run = whole_row;
        own.encoding.mixes_elements = true;  // the caller's parts may mix elements
        own.encoding.blocks.reset();         // and no description states them
        own.encoding.units.reset();
        own.encoding.uniform.reset();
        own.transport.scale_bits = 0;
    }
    replace_memory(own, parts);
    replace_basis(own, parts);
    replace_choice(own, parts);
    replace_encoding(own, parts);
    if (!parts.grid.empty()) own.grid = parts.grid;
    scheme.spec = scheme.name = name;
    scheme.family = "other";
    scheme.parts = std::move(own);
    return scheme;
}

NamedRows spread(Parameters theta, std::size_t elements) {
    if (!theta.scales.empty() && theta.unit != 1) {
        Row each(elements);
        for (std::size_t i = 0; i < elements; ++i) each[i] = theta.scale_at(i);
        theta.scales = std::move(each);
    }
    return theta.rows();
}

std::vector<std::uint64_t> random_words(const TrainingStep& step, std::size_t worker,
                                        std::size_t count, int bits, std::uint32_t hop) {
    if (bits < 1 || bits > 64)
        throw std::invalid_argument("bits=" + std::to_string(bits) + " is not between 1 and 64");
    const RandomStream stream = step.stream(worker, bits, hop);
    std::vector<std::uint64_t> words(count);
    for (std::size_t i = 0; i < count; ++i) words[i] = stream.at(i) >> (64 - bits);
    return words;
}

}  // namespace apscope::detail
