// Links of known hardware, for the cost model: one table, with the source of every number.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace apscope::detail {

struct KnownLink {
    std::string_view name;
    double bandwidth;  // bytes per second in one direction: measured, or `rated` if not measured
    double rated;      // bytes per second in one direction, according to the standard or data sheet
    double latency;    // seconds per message
    std::optional<int> interfaces;  // network interfaces per node; none: one per worker
    std::string_view source;
};

std::span<const KnownLink> known_links();
// Throws std::invalid_argument for an unknown name; the message lists the known ones.
const KnownLink& known_link(std::string_view name);

}  // namespace apscope::detail
