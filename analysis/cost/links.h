// Links of known hardware, for the cost model: one table, with the source of every number.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace apscope::detail {

struct KnownLink {
    std::string_view name;
    double bandwidth;               // bytes per second in one direction, as measured
    double rated;                   // the same according to the data sheet
    double latency;                 // seconds per message
    std::optional<int> interfaces;  // network interfaces per node; none: one per worker
    std::string_view source;
};

std::span<const KnownLink> known_links();
// Throws std::invalid_argument, whose message lists the names.
const KnownLink& known_link(std::string_view name);

}  // namespace apscope::detail
