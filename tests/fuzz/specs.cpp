#include "core/block_format.h"
#include "core/named_formats.h"
#include "emulation/allreduce/topology.h"
#include "emulation/schemes/definition.h"
#include "tests/fuzz/targets.h"

namespace apscope::detail::fuzz {
namespace {

// The name of an accepted spec is accepted, too, and means the same.
template <class Value, class Parse, class Name>
void round_trip(std::string_view text, const Parse& parse, const Name& name) {
    Value value;
    if (!taken([&] { value = parse(text); })) return;
    const std::string shown = name(value);
    require(name(parse(shown)) == shown, "'" + shown + "' has another name when it is read again");
    if constexpr (requires(const Value& v) { v == v; })
        require(parse(shown) == value, "'" + shown + "' is another thing when it is read again");
}

}  // namespace

void specs(Bytes bytes) {
    const std::string_view text = text_of(bytes);
    if (text.find('\n') != std::string_view::npos) return;  // messages show it as it is
    const auto name = [](const auto& value) { return std::string(value.name()); };
    round_trip<FloatFormat>(text, parse_format, name);
    round_trip<BlockFormat>(text, parse_block_format, name);
    round_trip<Topology>(text, parse_topology, name);
    round_trip<Scheme>(
        text, [](std::string_view spec) { return parse_scheme(spec); },
        [](const Scheme& scheme) { return scheme.spec; });
}

}  // namespace apscope::detail::fuzz
