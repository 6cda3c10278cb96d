#include "analysis/cost/links.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "core/limits.h"

namespace apscope::detail {

namespace {

// Latencies are NCCL's own constants for the steps of a ring with the protocol of large messages:
// hwLatencies in src/graph/tuning.cc of NCCL 2.28.7 (NVLINK, PCI, NET; Ring, Simple). NCCL has one
// latency for all networks.
constexpr auto links = std::to_array<KnownLink>({
    {"nvlink4", 370.8e9, 450e9, 3.4e-6, std::nullopt,
     "reached: 18 links of 20.6 GB/s, SM90_NVLINK_BW in NCCL's src/graph/topo.h; rated: 900 GB/s "
     "for a GPU in both directions, DGX H100 data sheet"},
    {"infiniband_ndr", 48.5e9, 50e9, 14e-6, std::nullopt,
     "reached: 48 to 49 GB/s for a ConnectX-7, as a maintainer states in NVIDIA/nccl-tests issue "
     "267; rated: "
     "400 Gb/s, one for each of the 8 GPUs of a DGX H100, its data sheet"},
    {"pcie5_x16", 32e9 * 16 * 128 / 130 / 8, 32e9 * 16 * 128 / 130 / 8, 5.7e-6, std::nullopt,
     "rated: 32 GT/s and lane, 16 lanes, 128 of 130 bits, PCI Express 5.0; not measured"},
    {"ethernet_100", 12e9, 12.5e9, 14e-6, 1,
     "reached: NET_BW, 100 Gbit, in NCCL's src/graph/topo.h; rated: 100 Gb/s; one for a node"},
    {"ethernet_25", 3.125e9, 3.125e9, 14e-6, 1, "rated: 25 Gb/s; not measured; one for a node"},
});

}  // namespace

std::span<const KnownLink> known_links() { return links; }

const KnownLink& known_link(std::string_view name) {
    const auto* match = std::ranges::find(links, name, &KnownLink::name);
    if (match != links.end()) return *match;
    std::string names;
    for (const KnownLink& link : links)
        names += (names.empty() ? "" : ", ") + std::string(link.name);
    throw std::invalid_argument("unknown link '" + limits::clipped(name) + "'; use one of " +
                                names);
}

}  // namespace apscope::detail
