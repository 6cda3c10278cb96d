// Names of formats, rounding and schemes, and the functions of numbers: modelled times.
#include <sstream>

#include "calls.h"

namespace generated {
namespace {

using namespace apscope;

template <class Value>
std::string printed(const Value& value) {
    std::ostringstream out;
    out << value;
    return out.str();
}

void formats(Draw& draw) {
    FloatFormat f;
    switch (draw.below(5)) {
        case 0: f = draw.fields(); break;
        case 1:
            f = make_format(draw.integer(0, 8), draw.integer(0, 23),
                            static_cast<Specials>(draw.between(0, 6)), !draw.one_in(3));
            break;
        case 2:
            f = make_p3109(draw.integer(3, 16), draw.integer(1, 11), draw.one_in(2),
                           draw.one_in(2));
            break;
        default: f = format(draw.format_name());
    }
    validate(f);
    if (draw.one_in(3)) f = with_bias(f, draw.integer(-200, 200));
    validate(f);
    require(format(f.name()) == f && printed(f) == f.name(),
            f.name() + " is read as another format");
    require(f.storage_bits() >= 1 && f.storage_bits() <= 64 && f.largest() >= 0 &&
                f.smallest_positive() >= 0 && f.smallest_normal() >= 0 && f.precision() >= 1 &&
                f.finest_exponent() <= f.emax() + 1,
            f.name() + " has limits that contradict each other");
    const bool has_nan = f.has_nan(), has_infinity = f.has_infinity;
    require(refused([&] { (void)f.nan_code(); }) != has_nan, f.name() + ": the code of NaN");
    require(refused([&] { (void)f.infinity_code(); }) != has_infinity,
            f.name() + ": the code of infinity");
    (void)refused([&] { require_fp32(f, "a test"); });
    require(std::hash<FloatFormat>()(f) == std::hash<FloatFormat>()(format(f.name())),
            f.name() + " has two hashes");
    const Quantizer q(f);
    require(same_number(q.decode(f.top_finite_code()), f.largest()), f.name() + "'s largest value");
}

void block_formats(Draw& draw) {
    const BlockFormat f = draw.block_format();
    validate(f);
    require(block_format(f.name()) == f && printed(f) == f.name(),
            f.name() + " is read as another block format");
    require(f.bits_per_element() > 0 && f.top_mantissa_bits() >= 0, f.name() + "'s bits");
    if (f.rule != ScaleRule::ratio) {
        const double amax =
            std::ldexp(1 + static_cast<double>(draw.below(99)) / 99, draw.between(-1070, 1000));
        (void)scale_step(f);
        (void)scale_exponent(f, amax);
    }
    (void)refused([&] { (void)fixed_point_element(draw.integer(2, 8), draw.one_in(2)); });
}

// A name is read as the value that prints it.
template <class Value, class Parse>
void read_again(Draw& draw, Value value, const Parse& parse) {
    require(printed(value) == to_string(value) && parse(printed(value)) == value,
            printed(value) + " is read as something else");
    (void)refused([&] { (void)parse(draw.near(printed(value))); });
    (void)refused([&] { (void)parse(draw.text()); });
}

void settings(Draw& draw) {
    const Projection p = draw.projection();
    read_again(draw, p.rounding, parse_rounding);
    read_again(draw, p.overflow, parse_overflow);
    read_again(draw, p.underflow, parse_underflow);
    read_again(draw, static_cast<ScaleRule>(draw.between(0, scale_rule_count - 1)),
               parse_scale_rule);
    read_again(draw, static_cast<BlockNonfinite>(draw.between(0, block_nonfinite_count - 1)),
               parse_block_nonfinite);
    (void)refused([&] { (void)parse_specials(draw.text()); });
    require(!specials_names().empty() && printed(ErrorKind::unsupported) == "unsupported", "names");
    (void)refused([&] { require_counted(p.rounding, "a test"); });
    const FloatFormat f = draw.format();
    validate(f);
    validate(p, f);
}

void specs(Draw& draw) {
    const Scheme parsed = scheme(draw.spec());
    require(scheme(parsed.spec).spec == parsed.spec, parsed.spec + " is read as another scheme");
    require(parsed.keys == scheme(parsed.spec).keys, parsed.spec + " is read with other keys");
    (void)refused([&] { (void)scheme(draw.text()); });
    for (const std::vector<std::string>& list : {main_schemes(), all_schemes()})
        (void)scheme(draw.of(list));
}

std::optional<int> maybe(Draw& draw, int low, int high) {
    return draw.one_in(2) ? std::optional<int>() : draw.integer(low, high);
}

double amount(Draw& draw) {
    return draw.one_in(9) ? draw.number<double>() : static_cast<double>(draw.below(1u << 20));
}

void costs(Draw& draw) {
    Network network;
    if (draw.one_in(2)) {
        const auto link = [&] {
            return draw.near(draw.of<std::string>(
                {"nvlink4", "infiniband_ndr", "pcie5_x16", "ethernet_100", "ethernet_25"}));
        };
        network = network_of(link(), link(), maybe(draw, 1, 8));
    } else {
        for (double* field : {&network.latency, &network.bandwidth, &network.pass_cost})
            if (draw.one_in(3)) *field = amount(draw);
        if (draw.one_in(3)) network.intra_bandwidth = amount(draw);
        if (draw.one_in(3)) network.intra_latency = amount(draw);
        network.interfaces = maybe(draw, 1, 4);
    }
    const std::string name = draw.near(
        draw.of<std::string>({"ring", "tree", "halving", "pat", "double_tree", "all_gather",
                              "shards", "hierarchical", "hierarchical_shards"}));
    std::optional<double> partial, result;
    if (draw.one_in(4)) partial = amount(draw);
    if (draw.one_in(4)) result = amount(draw);
    const std::optional<int> group = draw.one_in(3) ? maybe(draw, 1, 8) : std::optional<int>();
    const std::optional<int> nodes = draw.one_in(3) ? maybe(draw, 1, 8) : std::optional<int>();
    CollectiveCost cost =
        collective(name, amount(draw), draw.integer(1, 16), group, partial, result, nodes);
    (void)seconds(cost, network);
    if (draw.one_in(2)) cost.workers_of_node = draw.integer(0, 8);
    if (draw.one_in(2)) cost.stages.assign(draw.below(4), {amount(draw), amount(draw)});
    (void)seconds(cost, network);
    (void)student_t(draw.one_in(2) ? draw.number<double>() : amount(draw));
}

}  // namespace

const std::vector<Entry> words = {{"format", formats},
                                  {"block_format", block_formats},
                                  {"settings", settings},
                                  {"scheme", specs},
                                  {"collective and seconds", costs}};

}  // namespace generated
